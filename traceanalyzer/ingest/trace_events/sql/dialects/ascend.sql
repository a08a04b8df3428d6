-- trace_view.json of Ascend's profilers: the process `Ascend Hardware` has the device's streams as threads. Its number
-- ends in the device: in the low five bits, or in two decimal digits where an older tool numbered the processes.
-- Collectives lie in the process `Communication` (once `HCCL`), in lanes of groups; the planes below hold their parts.
-- It belongs to the device that its number ends in, or to the first one where no task runs there.
-- `Overlap Analysis` is computed from all of them, as is the `Scope Layer` of MindSpore, whose operators on the host are
-- `CPU OP`. Operators launch by the arrows `async_npu`: an arrow begins where its operator does.
INSERT INTO recast BY NAME
WITH lane_names AS (
    SELECT pid, tid, any_value(args ->> '$.name') AS lane
    FROM read_parquet($other)
    WHERE phase = 'M' AND name = 'thread_name'
    GROUP BY pid, tid
),
slices AS (
    SELECT
        event_id, host.name, host.pid, host.tid, host.category, host.start_ns, process, lane,
        args.args ->> '$."Task Type"' AS task,
        TRY_CAST(args.args ->> '$."Stream Id"' AS BIGINT) AS stream_id,
        TRY_CAST(host.pid AS BIGINT) AS number,
        if(number < 1024, number % 100, number & 31) AS device
    FROM read_parquet($host) AS host
    LEFT JOIN process_names USING (pid)
    LEFT JOIN lane_names ON lane_names.pid = host.pid AND lane_names.tid = host.tid
    LEFT JOIN read_parquet($args) AS args USING (event_id)
),
hardware AS (SELECT DISTINCT device FROM slices WHERE process = 'Ascend Hardware' AND device IS NOT NULL),
begins AS (
    SELECT other.id, min(slices.event_id) AS operator_id
    FROM read_parquet($other) AS other
    JOIN slices ON slices.pid = other.pid AND slices.tid = other.tid AND slices.start_ns = other.start_ns
    WHERE other.phase = 's' AND other.raw_category = 'async_npu' AND slices.category = 'cpu_op'
    GROUP BY other.id
),
operators AS (
    SELECT slices.event_id, any_value(begins.operator_id) AS operator_id
    FROM read_parquet($other) AS other
    JOIN begins USING (id)
    JOIN slices ON slices.pid = other.pid AND slices.tid = other.tid AND slices.start_ns = other.start_ns
    WHERE other.phase = 'f' AND other.raw_category = 'async_npu' AND slices.process = 'Ascend Hardware'
    GROUP BY slices.event_id
)
SELECT
    slices.event_id,
    CASE
        WHEN process = 'Ascend Hardware'
        THEN if(task IN ('EVENT_WAIT', 'EVENT_RECORD', 'NOTIFY_WAIT', 'NOTIFY_RECORD'), 'none', 'gpu')
        WHEN process IN ('Communication', 'HCCL') THEN if(lane SIMILAR TO 'Group .* Communication', 'gpu', 'none')
        WHEN process IN ('Overlap Analysis', 'Scope Layer') THEN 'none'
        WHEN category <> 'other' OR regexp_matches(process, '^([Pp]ython3?|CANN|MindSpore|CPU OP)$') THEN 'host'
        ELSE 'unknown'
    END AS class,
    CASE
        WHEN process = 'Ascend Hardware' THEN if(task IN ('MEMCPY_ASYNC', 'SDMA_SQE'), 'memcpy', 'kernel')
        WHEN process IN ('Communication', 'HCCL') THEN 'kernel'
        WHEN process = 'CANN' AND starts_with(name, 'AscendCL@') THEN 'runtime'
        WHEN process = 'CANN' AND regexp_matches(name, '^(Node|Model|Communication|Runtime)@') THEN 'driver'
        WHEN regexp_matches(name, '^(Enqueue|Dequeue)(@|$)') THEN 'other'
    END AS category,
    CASE
        WHEN process = 'Ascend Hardware' OR (process IN ('Communication', 'HCCL') AND device IN (FROM hardware))
        THEN device
        WHEN process IN ('Communication', 'HCCL') THEN (SELECT min(device) FROM hardware)
    END AS device,
    CASE
        WHEN process = 'Ascend Hardware' THEN coalesce(stream_id, TRY_CAST(slices.tid AS BIGINT))
        WHEN process IN ('Communication', 'HCCL') THEN 100000 + TRY_CAST(slices.tid AS BIGINT)
    END AS stream,
    -- An operator is known by its own number.
    CASE
        WHEN process = 'Ascend Hardware' THEN operators.operator_id
        WHEN slices.event_id IN (SELECT operator_id FROM begins) THEN slices.event_id
    END AS external_id,
    process IN ('Communication', 'HCCL') AS is_comm,
    CASE
        WHEN process IN ('Communication', 'HCCL')
        THEN nullif(regexp_extract(lane, '^Group (.*) Communication$', 1), '')
    END AS group_name,
    CASE
        WHEN process IN ('Communication', 'HCCL')
        THEN lower(nullif(regexp_extract(name, '^hcom_([A-Za-z]+)', 1), ''))
    END AS collective
FROM slices
LEFT JOIN operators USING (event_id);
