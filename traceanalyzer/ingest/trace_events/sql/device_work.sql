-- Work on devices, with the calls that launched it, as `device_check` wants it. Some tools write ids that are none, and
-- launches of several kernels under one id: what they say of calls is not used.
CREATE OR REPLACE TEMP TABLE device_work AS
WITH launched AS (
    SELECT correlation
    FROM read_parquet($gpu)
    WHERE correlation > 0 AND correlation <> 4294967295 AND graph_id IS NULL
    GROUP BY correlation
    HAVING count(*) = 1
),
calls AS (
    SELECT
        correlation, min(start_ns) AS start_ns,
        min_by(name, start_ns) AS name,
        min_by(start_ns + dur_ns, start_ns) AS end_ns,
        min_by(event_id, start_ns) AS call_id,
        -- A thread makes no call twice at one time.
        count(*) > 1 AND min(start_ns) = max(start_ns) AND min(hash(tid, name)) = max(hash(tid, name)) AS is_repeated
    FROM read_parquet($host)
    SEMI JOIN launched USING (correlation)
    WHERE category IN ('runtime', 'driver') AND NOT (start_ns = 0 AND $drop_zero)
    GROUP BY correlation
)
SELECT
    event_id AS op_id,
    coalesce(device, 0) AS device,
    stream,
    hash(coalesce(device, 0), track_pid, context, stream) AS lane,
    gpu.name, size_bytes, gpu.start_ns,
    gpu.start_ns + dur_ns AS end_ns,
    graph_id IS NULL
    AND (
        kind <> 'kernel'
        OR coalesce(NOT regexp_matches(calls.name, 'LaunchKernelEx|GraphLaunch'), $all_in_order)
    ) AS is_ordered,
    kind = 'memcpy'
    AND copy_kind = 'DtoH'
    AND calls_to(calls.name, 'copy') -- calls of other libraries put copies into a queue
    AND NOT contains(calls.name, 'Async') AS is_read_back,
    gpu.correlation,
    calls.start_ns AS call_start_ns, calls.end_ns AS call_end_ns, calls.call_id, calls.name AS call_name,
    coalesce(calls.is_repeated, FALSE) AS is_call_repeated
FROM read_parquet($gpu) AS gpu
LEFT JOIN calls ON calls.correlation = gpu.correlation
WHERE stream IS NOT NULL AND NOT (gpu.start_ns = 0 AND $drop_zero);
