-- Times are microseconds in the files and integer nanoseconds here. A double holds a time with three decimals exactly
-- below 2^43 µs, and a whole number below 2^53; texts with more digits go through a decimal.
CREATE OR REPLACE MACRO ns_of_double(us) AS
    CASE
        WHEN abs(us) < 9.0e15
        THEN CAST(floor(us) AS BIGINT) * 1000 + CAST(round((us - floor(us)) * 1000) AS BIGINT)
    END;
CREATE OR REPLACE MACRO ns_of_text(us) AS
    TRY_CAST(round(TRY_CAST(us AS DECIMAL(30, 6)) * 1000) AS BIGINT);
-- A profiler of spring 2024 wrote the nanoseconds after the point without their leading zeros.
CREATE OR REPLACE MACRO ns_of_unpadded(us) AS
    CASE
        WHEN regexp_full_match(us, '-?\d+\.\d{1,3}')
        THEN TRY_CAST(split_part(us, '.', 1) AS BIGINT) * 1000
            + CASE WHEN us LIKE '-%' THEN -1 ELSE 1 END * TRY_CAST(split_part(us, '.', 2) AS BIGINT)
        ELSE ns_of_text(us)
    END;
-- The events of a file that holds a bare array, in file order.
CREATE OR REPLACE MACRO events_of(path, object_bytes) AS TABLE (
    SELECT * EXCLUDE (ts, dur), ts AS start_us, ns_of_double(ts) AS start_ns, ns_of_double(dur) AS dur_ns
    FROM read_json(
        path,
        format = 'array',
        maximum_object_size = object_bytes,
        columns = {
            ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', ts: 'DOUBLE', dur: 'DOUBLE',
            id: 'VARCHAR', id2: 'JSON', bp: 'VARCHAR', s: 'VARCHAR', bind_id: 'VARCHAR', flow_in: 'VARCHAR',
            flow_out: 'VARCHAR', args: 'JSON'
        }
    )
);
-- The same for times in quotes, which a double cannot hold.
CREATE OR REPLACE MACRO exact_events_of(path, object_bytes, unpadded) AS TABLE (
    SELECT
        * EXCLUDE (ts, dur),
        TRY_CAST(ts AS DOUBLE) AS start_us,
        CASE WHEN unpadded THEN ns_of_unpadded(ts) ELSE ns_of_text(ts) END AS start_ns,
        CASE WHEN unpadded THEN ns_of_unpadded(dur) ELSE ns_of_text(dur) END AS dur_ns
    FROM read_json(
        path,
        format = 'array',
        maximum_object_size = object_bytes,
        columns = {
            ph: 'VARCHAR', cat: 'VARCHAR', name: 'VARCHAR', pid: 'VARCHAR', tid: 'VARCHAR', ts: 'VARCHAR',
            dur: 'VARCHAR', id: 'VARCHAR', id2: 'JSON', bp: 'VARCHAR', s: 'VARCHAR', bind_id: 'VARCHAR',
            flow_in: 'VARCHAR', flow_out: 'VARCHAR', args: 'JSON'
        }
    )
);
-- Whether an event of a GPU category comes from another tool.
CREATE OR REPLACE MACRO is_foreign(args, pid) AS
    CASE
        WHEN coalesce(args, '{}') = '{}' OR NOT starts_with(args, '{')
        THEN NOT coalesce(regexp_full_match(pid, '\d{1,2}'), FALSE)
        ELSE NOT regexp_matches(args, '"([Ee]xternal id|stream|device|correlation|corr_id|grid|block)"')
    END;
-- The kind of device work that an event without a category is: XLA's profiler (JAX, TensorFlow) describes the work of a
-- device in one argument, and calls copies and memsets by these names. In 2020 the host's launches had the same
-- arguments; the host is process 701, and what follows it.
CREATE OR REPLACE MACRO xla_work(name, args, pid) AS
    CASE
        WHEN TRY_CAST(pid AS BIGINT) >= 701 THEN NULL
        WHEN args IS NULL OR NOT contains(args, '_details"') THEN NULL
        WHEN contains(args, '"kernel_details"') THEN 'kernel'
        WHEN contains(args, '"memcpy_details"') AND regexp_matches(name, '^(Memcpy([HDP]2[HDP]|Other)$|Copy(Host|Device)To(Host|Device))')
        THEN 'memcpy'
        WHEN contains(args, '"Memset_details"') AND name = 'Memset' THEN 'memset'
    END;
-- A step that the user told the same profiler of: an event with its number, whatever its name.
CREATE OR REPLACE MACRO is_xla_step(phase, cat, args) AS
    coalesce(phase = 'X' AND cat IS NULL AND contains(args, '"step_num"'), FALSE);
-- What else the same profiler records of the host without a category: steps, Python frames, and calls, which have the
-- number of the work that they launch.
CREATE OR REPLACE MACRO xla_host_category(name, args) AS
    CASE
        WHEN contains(args, '"step_num"') THEN 'annotation'
        WHEN regexp_matches(name, '^\$([^ ]+:\d+ |builtins |<unknown> )') THEN 'python'
        WHEN NOT coalesce(contains(args, '"correlation_id"'), FALSE) THEN NULL
        WHEN regexp_matches(name, '^(hip|cuda)[A-Z]') THEN 'runtime'
        WHEN contains(args, '"context_id"') OR contains(args, '"device_id"') OR contains(args, '_details"')
            OR regexp_matches(name, '^cu[A-Z]')
        THEN 'driver'
    END;
-- The kind of an event of rocprof (versions 1 and 2), which writes no categories: work of a device has its number, calls
-- have the names of HIP and HSA, and what else has times in nanoseconds is a range of rocTX. Copies that HSA reports
-- name no device; those of HIP are the same ones. Barriers compute and move nothing.
CREATE OR REPLACE MACRO rocprof_kind(name, args) AS
    CASE
        WHEN args IS NULL OR NOT contains(args, '"BeginNs"') THEN NULL
        WHEN TRY_CAST(args ->> '$.BeginNs' AS BIGINT) IS NULL OR TRY_CAST(args ->> '$.EndNs' AS BIGINT) IS NULL
        THEN NULL
        WHEN name IN ('async-copy', '<barrier packet>', '"<barrier packet>"') THEN 'other'
        WHEN contains(args, '"dev-id"') AND regexp_matches(name, '^(Copy|Memcpy)') THEN 'memcpy'
        WHEN contains(args, '"dev-id"') AND starts_with(name, 'Fill') THEN 'memset'
        WHEN contains(args, '"dev-id"') OR contains(args, '"gpu-id"') THEN 'kernel'
        WHEN regexp_matches(name, '^(__)?hip[A-Z]') THEN 'runtime'
        WHEN starts_with(name, 'hsa') THEN 'driver'
        ELSE 'annotation'
    END;
-- A start of it in nanoseconds, which is among the arguments, where it is the time that is shown in whole microseconds.
CREATE OR REPLACE MACRO rocprof_ns(written, shown_ns) AS
    CASE
        WHEN TRY_CAST(written AS BIGINT) BETWEEN shown_ns AND shown_ns + 999 THEN CAST(written AS BIGINT)
        ELSE shown_ns
    END;
-- A length of it in nanoseconds. One below a microsecond is shown as a whole one.
CREATE OR REPLACE MACRO rocprof_dur_ns(begins, ends, shown_ns) AS
    CASE
        WHEN TRY_CAST(ends AS BIGINT) - TRY_CAST(begins AS BIGINT) BETWEEN greatest(shown_ns - 1000, 0) AND shown_ns + 999
        THEN CAST(ends AS BIGINT) - CAST(begins AS BIGINT)
        ELSE shown_ns
    END;
-- A time of rocprofv3, which writes it in nanoseconds among the arguments; its events are those with a corr_id. In the
-- timeline, kernels of one lane are shown so that none begins before the end of another.
CREATE OR REPLACE MACRO sdk_start_ns(args, shown_ns) AS coalesce(TRY_CAST(args ->> '$.begin_ns' AS BIGINT), shown_ns);
CREATE OR REPLACE MACRO sdk_dur_ns(args, shown_ns) AS
    coalesce(TRY_CAST(args ->> '$.end_ns' AS BIGINT) - TRY_CAST(args ->> '$.begin_ns' AS BIGINT), shown_ns);
-- The thread of a call that is an async event, and a number of its own for each lane of a device.
CREATE OR REPLACE MACRO sdk_lane(cat, args, id2) AS
    if(lower(cat) LIKE '%_api', args ->> '$.tid', CAST(TRY_CAST(id2 ->> '$.local' AS BIGINT) AS VARCHAR));
-- The three sides of a launch in a text: those of rocprofv3, which counts the grid in work-items, and lists in quotes.
CREATE OR REPLACE MACRO sdk_sides(text) AS
    CASE
        WHEN len(regexp_extract_all(text, '\d+')) = 3
        THEN list_transform(regexp_extract_all(text, '\d+'), lambda digits: TRY_CAST(digits AS BIGINT))
    END;
-- Its Perfetto trace has only their product. Rules ask for products, so all of it stands in the first side.
CREATE OR REPLACE MACRO sdk_size(text) AS
    coalesce(sdk_sides(text), CASE WHEN TRY_CAST(text AS BIGINT) >= 0 THEN [TRY_CAST(text AS BIGINT), 1, 1] END);
CREATE OR REPLACE MACRO sdk_groups(items, block) AS
    CASE
        WHEN least(block[1], block[2], block[3]) > 0
        THEN list_transform([1, 2, 3], lambda side: (items[side] + block[side] - 1) // block[side])
    END;
-- The device of rocprofv3's texts: '4', 'Agent 4' and 'GPU-0'.
CREATE OR REPLACE MACRO agent_number(text) AS TRY_CAST(regexp_extract(text, '^(?:[A-Za-z]+[ -])?(\d+)$', 1) AS INTEGER);
-- HIP fills and copies memory by kernels of its own where no engine does.
CREATE OR REPLACE MACRO hip_kind(name, kind) AS
    CASE
        WHEN starts_with(name, '__amd_rocclr_fillBuffer') THEN 'memset'
        WHEN starts_with(name, '__amd_rocclr_copy') THEN 'memcpy'
        ELSE kind
    END;
-- The kind of memory at one end of a copy. Intel's profiler has words of its own, in capitals: for what malloc returns,
-- for memory of the host that the device may read, and for memory that moves by itself.
CREATE OR REPLACE MACRO memory_kind(word) AS
    CASE word
        WHEN '' THEN NULL
        WHEN 'MEMORY' THEN 'pageable'
        WHEN 'HOST' THEN 'pinned'
        WHEN 'SHARED' THEN 'managed'
        ELSE lower(word)
    END;
-- What the names of GPU work say: whether it communicates, and the direction and the ends of a copy.
-- DuckDB looks for plain words once a distinct name, and for patterns in every row.
CREATE OR REPLACE MACRO is_comm_work(kind, name) AS
    CASE
        WHEN kind = 'kernel'
            AND (contains(lower(name), 'ccl') OR contains(lower(name), 'cncl') OR contains(lower(name), 'cross_device_reduce'))
        THEN regexp_matches(name, '[nr]ccl|(^|[^a-z])(mccl|cncl)|cross_device_reduce', 'i')
        ELSE FALSE
    END;
CREATE OR REPLACE MACRO copy_direction(kind, name, between_devices) AS
    CASE
        WHEN kind <> 'memcpy' THEN NULL
        WHEN regexp_matches(name, 'HtoD|[HM]2D|HostToDevice|HOST_TO_DEVICE') THEN 'HtoD'
        WHEN regexp_matches(name, 'DtoH|D2[HM]|DeviceToHost|DEVICE_TO_HOST') THEN 'DtoH'
        WHEN contains(name, 'DEVICE_TO_DEVICE') THEN if(between_devices, 'PtoP', 'DtoD')
        WHEN regexp_matches(name, 'DtoD|D2D|DeviceToDevice') THEN 'DtoD'
        WHEN regexp_matches(name, 'PtoP|P2P|PeerToPeer') THEN 'PtoP'
        WHEN regexp_matches(name, 'HtoH|[HM]2[HM]|HostToHost|HOST_TO_HOST') THEN 'HtoH'
    END;
CREATE OR REPLACE MACRO source_kind(kind, name) AS
    CASE WHEN kind = 'memcpy' THEN memory_kind(regexp_extract(name, '\((\w+)(\(\w+\))? ?-> ?\w+', 1)) END;
CREATE OR REPLACE MACRO target_kind(kind, name) AS
    CASE kind
        WHEN 'memcpy' THEN memory_kind(regexp_extract(name, '-> ?(\w+)(\(\w+\))?\)', 1))
        WHEN 'memset' THEN memory_kind(regexp_extract(name, '\((?:\w+ -> )?(\w+)\)', 1))
    END;
-- Names as Kineto has them, of kinds that PyTorch's later recorder writes by themselves: arrays lie on the device, and
-- numbers are CUPTI's.
CREATE OR REPLACE MACRO is_memory_word(kind) AS regexp_full_match(kind, '[a-z_]{1,32}|\d{1,2}');
CREATE OR REPLACE MACRO memory_word(kind) AS
    CASE kind
        WHEN '1' THEN 'Pageable'
        WHEN '2' THEN 'Pinned'
        WHEN '3' THEN 'Device'
        WHEN '4' THEN 'Array'
        WHEN '5' THEN 'Managed'
        ELSE CASE WHEN is_memory_word(kind) THEN upper(kind[1]) || kind[2:] END
    END;
CREATE OR REPLACE MACRO is_copy_kind(kind) AS regexp_full_match(kind, '[HDA]to[HDA]|PtoP|\d{1,2}');
CREATE OR REPLACE MACRO copy_name(kind, source, target) AS
    concat_ws(
        ' ',
        'Memcpy',
        CASE WHEN kind = '9' THEN 'HtoH' WHEN kind NOT BETWEEN '0' AND '99' THEN replace(kind, 'A', 'D') END,
        '(' || memory_word(source) || ' -> ' || memory_word(target) || ')'
    );
CREATE OR REPLACE MACRO memset_name(kind) AS 'Memset (' || memory_word(kind) || ')';
-- Three sides of a launch: '1024,1,1'.
CREATE OR REPLACE MACRO sides_of(text) AS
    CASE WHEN text <> '' THEN TRY_CAST(string_split(text, ',') AS BIGINT[]) END;
-- Texts that no profiler writes: names are cut to this many characters, and other values of more bytes are lost.
CREATE OR REPLACE MACRO shortened(text) AS CASE WHEN strlen(text) > 65536 THEN left(text, 65536) ELSE text END;
CREATE OR REPLACE MACRO unless_long(text) AS CASE WHEN strlen(text) <= 65536 THEN text END;
-- Numbers of a launch or a transfer as far as any device has them: sums and products of others fit into 64 bits. A copy
-- has at most 16 TiB, a collective 2^38 elements and 2^20 ranks, a grid or a block 2^44 parts in all.
CREATE OR REPLACE MACRO at_most(number, most) AS CASE WHEN number BETWEEN -most AND most THEN number END;
CREATE OR REPLACE MACRO memory_size(number) AS at_most(number, 17592186044416);
CREATE OR REPLACE MACRO launchable(sides) AS
    CASE
        WHEN coalesce(least(sides[1], sides[2], sides[3]), 0) >= 0
            AND coalesce(greatest(sides[1], sides[2], sides[3]), 0) <= 17592186044416
            AND coalesce(CAST(sides[1] AS DOUBLE) * sides[2] * sides[3], 0) <= 17592186044416
        THEN sides
    END;
-- 1 where something was written and nothing could be read from it.
CREATE OR REPLACE MACRO is_lost(written, value) AS
    CASE WHEN value IS NULL AND written IS NOT NULL THEN CAST(1 AS TINYINT) ELSE CAST(0 AS TINYINT) END;
-- Numbers that link records; these stand for none. In 64 bits without a sign, -1 is this text.
CREATE OR REPLACE MACRO known_id(number) AS CASE WHEN number NOT IN (0, -1, 4294967295) THEN number END;
CREATE OR REPLACE MACRO is_id_lost(written, number) AS
    CASE WHEN written = '18446744073709551615' THEN CAST(0 AS TINYINT) ELSE is_lost(written, number) END;
-- The async begin events of parts of a file, each with the next event of its level among those of one category, id and
-- name (and process, where the id is local to it): its end, unless that begins, too.
CREATE OR REPLACE MACRO async_begins(files) AS TABLE (
    WITH marks AS (
        SELECT
            *,
            coalesce(id, id2 ->> '$.global', id2 ->> '$.local') AS async_id,
            CASE WHEN id2 ->> '$.local' IS NOT NULL THEN pid END AS scope_pid,
            phase IN ('b', 'S') AS begins
        FROM read_parquet(files)
        WHERE phase IN ('b', 'e', 'S', 'F')
    ),
    levels AS (
        SELECT
            *,
            sum(CASE WHEN begins THEN 1 ELSE -1 END) OVER (
                PARTITION BY raw_category, async_id, name, scope_pid ORDER BY start_ns, event_id ROWS UNBOUNDED PRECEDING
            ) + CASE WHEN begins THEN 0 ELSE 1 END AS level
        FROM marks
    ),
    pairs AS (
        SELECT *, lead(start_ns) OVER same_level AS next_ns, lead(begins) OVER same_level AS next_begins
        FROM levels
        WINDOW same_level AS (
            PARTITION BY raw_category, async_id, name, scope_pid, level ORDER BY start_ns, event_id
        )
    )
    SELECT * EXCLUDE (begins, level, next_ns, next_begins), CASE WHEN NOT next_begins THEN next_ns END AS end_ns
    FROM pairs
    WHERE begins
);
-- Whether a call launches one kernel.
CREATE OR REPLACE MACRO is_plain_launch(name) AS
    calls_to(name, 'launch') AND NOT contains(name, 'MultiDevice');
-- The blocks of one side of a grid; where the call counts threads, the last block may not be full.
CREATE OR REPLACE MACRO in_blocks(side, block_side, counts_threads) AS
    if(coalesce(counts_threads, FALSE), (side + block_side - 1) // block_side, side);
-- 1 where a launch has one of the lists, and not three numbers of it.
CREATE OR REPLACE MACRO is_list_lost(args, word, keys, sides) AS
    CASE
        WHEN (sides[1] IS NULL OR sides[2] IS NULL OR sides[3] IS NULL) AND contains(args, word)
            AND len(list_filter(json_type(args, keys), lambda type: type <> 'NULL')) > 0
        THEN CAST(1 AS TINYINT)
        ELSE CAST(0 AS TINYINT)
    END;
-- Numbers of streams; -1 stands for none, in 32 bits, too.
CREATE OR REPLACE MACRO stream_number(number) AS CASE WHEN number BETWEEN 0 AND 4294967294 THEN number END;
CREATE OR REPLACE MACRO stream_or_none(number) AS CASE WHEN number BETWEEN -1 AND 4294967295 THEN number END;
CREATE OR REPLACE MACRO truth(written) AS CASE lower(written) WHEN 'true' THEN TRUE WHEN 'false' THEN FALSE END;
CREATE OR REPLACE MACRO finite(written) AS
    CASE WHEN isfinite(TRY_CAST(written AS DOUBLE)) THEN TRY_CAST(written AS DOUBLE) END;
