-- One row per thread that launches work of a device ($2; NULL: of any) of a trace ($1): how much of it.
SELECT slices.thread_id, count(*) AS launch_count
FROM canonical.gpu_ops AS ops
JOIN canonical.host_slices AS slices ON slices.trace_id = ops.trace_id AND slices.slice_id = ops.launch_id
WHERE ops.trace_id = $1 AND slices.trace_id = $1 AND ($2 IS NULL OR ops.device = $2)
GROUP BY slices.thread_id
