-- The names of the slices in stack_slices by their numbers, for the same trace ($1) and device ($2).
WITH windows AS (
    SELECT start_ns, end_ns
    FROM attribution.windows
    WHERE trace_id = $1 AND device = $2
),
threads AS (
    SELECT DISTINCT slices.thread_id
    FROM canonical.host_slices AS slices
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = slices.trace_id AND ops.launch_id = slices.slice_id, windows
    WHERE slices.trace_id = $1 AND ops.trace_id = $1 AND ops.device = $2
      AND ops.start_ns >= windows.start_ns AND ops.start_ns < windows.end_ns
)
SELECT DISTINCT name
FROM canonical.host_slices
SEMI JOIN threads USING (thread_id)
WHERE trace_id = $1
ORDER BY name
