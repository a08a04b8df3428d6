-- One row per GPU operation that a call of modelled_calls launched, on its thread, while it ran.
--
-- columns:
--   trace_id  INTEGER  traces.trace_id
--   op_id     BIGINT   gpu_ops.op_id
--   device    INTEGER  device
--   slice_id  BIGINT   the call (host_slices.slice_id)
WITH launches AS (
    SELECT
        ops.trace_id,
        ops.op_id,
        ops.device,
        calls.thread_id,
        calls.start_ns
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS calls
      ON calls.trace_id = ops.trace_id AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
)
SELECT
    launches.trace_id,
    launches.op_id,
    launches.device,
    calls.slice_id
FROM launches
ASOF JOIN modelled_calls AS calls
    ON calls.trace_id = launches.trace_id
   AND calls.thread_id = launches.thread_id
   AND calls.start_ns <= launches.start_ns
WHERE launches.start_ns < calls.end_ns
