-- The events of one chunk: position, kind and defect of each. Durations above 30 days are defects, and so are times more
-- than 12 years before zero or after 2096: sums and differences of the others, doubled, fit into 64 bits.
-- Events of GPU categories without a stream, device, launch number or size are not GPU work, because other tools use the same
-- category names; except events without any arguments whose process is the number of a device, as in hand-written traces.
CREATE OR REPLACE TEMP TABLE chunk AS
WITH numbered AS (
    SELECT
        row_number() OVER () - 1 AS position,
        -- A step without a readable duration has begun, and its end is not known. PyTorch's exporter in Python
        -- (use_python_export, torch 2.13) writes instants as slices, which last until the recording ends.
        CASE
            WHEN ph = 'X' AND cat = 'cpu_instant_event' THEN 'i'
            WHEN ph = 'X' AND coalesce(dur_ns > 2592000000000000, TRUE) AND lower(cat) IN ('user_annotation', 'cpu_op')
                AND starts_with(name, 'ProfilerStep#')
            THEN 'B'
            ELSE left(ph, 1)
        END AS phase,
        * REPLACE (
            shortened(name) AS name,
            unless_long(cat) AS cat,
            unless_long(pid) AS pid,
            unless_long(tid) AS tid,
            unless_long(id) AS id,
            unless_long(id2) AS id2,
            unless_long(bp) AS bp,
            unless_long(s) AS s,
            unless_long(bind_id) AS bind_id,
            if(ph = 'X' AND cat = 'cpu_instant_event', 0, dur_ns) AS dur_ns,
            -- Tables of databases keep objects as texts.
            CASE
                WHEN strlen(args) > 8388608 THEN NULL
                WHEN starts_with(args, '"{') AND json_valid(args ->> '$') THEN args ->> '$'
                ELSE args
            END AS args
        ),
        coalesce(
            greatest(strlen(name), strlen(cat), strlen(pid), strlen(tid), strlen(id), strlen(id2), strlen(bind_id)), 0
        ) > 65536 OR coalesce(strlen(args), 0) > 8388608 AS has_long_text,
        CASE WHEN cat IS NULL AND phase = 'X' THEN rocprof_kind(name, args) END AS rocprof,
        CASE WHEN cat IS NULL AND phase = 'X' THEN xla_work(name, args, pid) END AS xla,
        is_xla_step(phase, cat, args) AS is_step,
        -- rocprofv3's Perfetto trace as JSON.
        lower(cat) IN ('kernel_dispatch', 'memory_copy', 'hip_api', 'hsa_api', 'marker_api', 'rccl_api')
            AND coalesce(contains(args, '"corr_id"'), FALSE) AS is_sdk
    FROM events_of($path, $object_bytes)
)
SELECT
    position, phase,
    CASE
        WHEN phase <> 'X' THEN NULL
        WHEN cat IS NULL AND (xla IS NOT NULL OR rocprof IN ('kernel', 'memcpy', 'memset')) THEN 'gpu'
        WHEN class = 'gpu' AND is_foreign(args, pid) THEN 'host'
        ELSE coalesce(class, 'host')
    END AS class,
    CASE
        WHEN class = 'gpu' AND is_foreign(args, pid) THEN 'other'
        WHEN category = 'cpu_op' AND regexp_matches(name, '^(ProfilerStep#|Optimizer\.|enumerate\(Data(Loader|Pipe)\)#)')
        THEN 'annotation'
        WHEN cat IS NULL AND phase = 'X'
        THEN coalesce(xla, rocprof, xla_host_category(name, args), 'other')
        ELSE coalesce(category, 'other')
    END AS category,
    if(is_step, 'step_num', cat) AS raw_category,
    if(is_step, concat_ws(' ', name, args ->> '$.step_num'), name) AS name,
    -- Ranges of rocTX belong to the threads that call HIP; rocprof shows them as another process.
    CASE WHEN rocprof = 'annotation' AND pid = '0' THEN '2' ELSE pid END AS pid,
    tid, start_us,
    CASE
        WHEN is_sdk THEN sdk_start_ns(args, numbered.start_ns)
        WHEN rocprof IS NULL THEN numbered.start_ns
        ELSE rocprof_ns(args ->> '$.BeginNs', numbered.start_ns)
    END AS start_ns,
    CASE
        WHEN is_sdk THEN sdk_dur_ns(args, numbered.dur_ns)
        WHEN rocprof IS NULL THEN numbered.dur_ns
        ELSE rocprof_dur_ns(args ->> '$.BeginNs', args ->> '$.EndNs', numbered.dur_ns)
    END AS dur_ns,
    coalesce(id, bind_id) AS id,
    id2, bp, s AS scope,
    bind_id IS NOT NULL AS binds,
    truth(flow_in) AS flow_in,
    truth(flow_out) AS flow_out,
    is_lost(flow_in, truth(flow_in)) + is_lost(flow_out, truth(flow_out)) AS lost_flows,
    CASE WHEN args <> '{}' THEN args END AS args,
    has_long_text,
    CASE
        WHEN phase IS NULL AND coalesce(name, cat, pid, tid, CAST(args AS VARCHAR)) IS NULL THEN 'empty'
        WHEN phase IS NULL THEN 'missing-phase'
        WHEN phase NOT IN ('X', 'M', 'B', 'E', 'i', 'I', 'R', 'n', 'b', 'e', 'S', 'F', 's', 't', 'f', 'C')
        THEN 'unknown-phase'
        WHEN phase <> 'M' AND coalesce(start_ns NOT BETWEEN -400000000000000000 AND 4000000000000000000, TRUE)
        THEN 'bad-timestamp'
        WHEN phase = 'X' AND (dur_ns IS NULL OR dur_ns > 2592000000000000) THEN 'bad-duration'
    END AS loss
FROM numbered
LEFT JOIN categories ON raw = lower(cat);
