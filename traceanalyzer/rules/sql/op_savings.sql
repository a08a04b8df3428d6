-- One row per operation that a rule's fix would shorten, and by how much at most.
WITH savings AS (
    SELECT NULL /* op_saving */
)
SELECT
    ops.trace_id,
    ops.device,
    ops.op_id,
    least(ops.dur_ns, round(savings.saving_ns))::BIGINT AS saving_ns
FROM savings
JOIN gpu_ops AS ops USING (trace_id, op_id)
WHERE savings.saving_ns >= 1
