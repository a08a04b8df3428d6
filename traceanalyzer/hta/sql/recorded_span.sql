-- One row: the first start and the last end of host slices that start before a time, and of the GPU work they launched.
WITH slices AS (
    SELECT slice_id, start_ns, start_ns + dur_ns AS end_ns, correlation
    FROM canonical.host_slices
    WHERE trace_id = $trace_id AND start_ns < $before_ns
)
SELECT min(start_ns) AS start_ns, max(end_ns) AS end_ns
FROM (
    SELECT start_ns, end_ns FROM slices
    UNION ALL
    SELECT ops.start_ns, ops.start_ns + ops.dur_ns
    FROM canonical.gpu_ops AS ops
    WHERE ops.trace_id = $trace_id AND ops.launch_id IN (SELECT slice_id FROM slices)
    UNION ALL
    SELECT syncs.start_ns, syncs.start_ns + syncs.dur_ns
    FROM canonical.syncs AS syncs
    WHERE syncs.trace_id = $trace_id AND syncs.correlation IN (SELECT correlation FROM slices)
)
