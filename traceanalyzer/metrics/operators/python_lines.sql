-- One row per trace and Python frame: what the device and the host did for it.
--
-- A GPU operation belongs to the innermost frame around its launch; idle time to the innermost frame around the slice
-- that is to blame for it (time_ledger). Frames named nn.Module are the profiler's marks, and count as frames.
--
-- columns:
--   trace         VARCHAR  name of the trace
--   rank          INTEGER  rank in the job
--   trace_id      INTEGER  traces.trace_id
--   name          VARCHAR  frame, as written: file(line): function
--   call_count    BIGINT   calls
--   host_self_ns  BIGINT   their durations without the slices inside
--   device_ns     BIGINT   sum of the durations of the GPU operations launched in it
--   idle_ns       BIGINT   time that devices waited for it
WITH frames AS (
    SELECT
        trace_id,
        name,
        sum(call_count) AS call_count,
        sum(host_self_ns) AS host_self_ns
    FROM call_tree
    WHERE category = 'python'
    GROUP BY trace_id, name
),
device_work AS (
    SELECT
        owners.trace_id,
        slices.name,
        sum(ops.dur_ns) AS device_ns
    FROM op_owners AS owners
    JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = owners.trace_id AND slices.slice_id = owners.python_id
    GROUP BY owners.trace_id, slices.name
),
idle AS (
    SELECT
        trace_id,
        blame_python AS name,
        sum(dur_ns) AS idle_ns
    FROM attribution.ledger_rows
    WHERE bucket LIKE 'host.%'
      AND blame_python IS NOT NULL
    GROUP BY trace_id, blame_python
)
SELECT
    traces.trace,
    traces.rank,
    frames.trace_id,
    frames.name,
    CAST(frames.call_count AS BIGINT) AS call_count,
    CAST(frames.host_self_ns AS BIGINT) AS host_self_ns,
    CAST(coalesce(device_work.device_ns, 0) AS BIGINT) AS device_ns,
    CAST(coalesce(idle.idle_ns, 0) AS BIGINT) AS idle_ns
FROM frames
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN device_work USING (trace_id, name)
LEFT JOIN idle USING (trace_id, name)
ORDER BY frames.trace_id, device_ns DESC, idle_ns DESC, frames.name
