-- One row per call that put work on a device: how long the call took, how long its work waited, and how long it ran.
--
-- The calls are all runtime or driver calls, of any vendor, that a GPU operation names as its launch; a graph launch is
-- one row however many kernels it replays. The queue time runs from the end of the call to the start of its first
-- operation; it is NULL where that operation started before the call returned, as in NVIDIA's kernel execution summary.
-- The total runs from the start of the call to the end of the call or of its last operation, whichever is later.
--
-- columns: trace, rank
--   device       INTEGER  device of the operations
--   trace_id     INTEGER  key of the canonical tables
--   launch_id    BIGINT   the call (host_slices.slice_id)
--   thread_id    INTEGER  thread of the call
--   api          VARCHAR  name of the call
--   name         VARCHAR  first operation launched
--   op_count     BIGINT   operations launched
--   start_ns     BIGINT   start of the call
--   api_ns       BIGINT   duration of the call
--   queue_ns     BIGINT   end of the call to the start of its first operation; NULL: the operation started before the
--                         call returned
--   gpu_start_ns BIGINT   start of the first operation
--   gpu_ns       BIGINT   start of the first operation to the end of the last
--   total_ns     BIGINT   start of the call to the end of the call or of the last operation, whichever is later
WITH work AS (
    SELECT
        trace_id, launch_id, device,
        count(*) AS op_count,
        min(start_ns) AS gpu_start_ns,
        max(start_ns + dur_ns) AS gpu_end_ns,
        arg_min(op_id, (start_ns, op_id)) AS op_id
    FROM gpu_ops
    WHERE launch_id IS NOT NULL
    GROUP BY trace_id, launch_id, device
)
SELECT
    trace, rank, work.device, work.trace_id, work.launch_id, call.thread_id, call.name AS api, first_op.name,
    op_count, call.start_ns, call.dur_ns AS api_ns,
    CASE
        WHEN gpu_start_ns >= call.start_ns + call.dur_ns THEN gpu_start_ns - call.start_ns - call.dur_ns
    END AS queue_ns,
    gpu_start_ns,
    gpu_end_ns - gpu_start_ns AS gpu_ns,
    greatest(gpu_end_ns, call.start_ns + call.dur_ns) - call.start_ns AS total_ns
FROM work
JOIN canonical.traces USING (trace_id)
JOIN launching_slices AS call ON call.trace_id = work.trace_id AND call.slice_id = work.launch_id
JOIN gpu_ops AS first_op ON first_op.trace_id = work.trace_id AND first_op.op_id = work.op_id
ORDER BY traces.trace_id, call.start_ns, work.launch_id, work.device
