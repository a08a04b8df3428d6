-- One row per operation that a rule's fix would shorten, and by how much at most, or whose launch it would leave out.
WITH savings AS (
    SELECT NULL::INTEGER AS trace_id, NULL::BIGINT AS op_id, NULL::DOUBLE AS saving_ns, FALSE AS left_out
    WHERE FALSE
    UNION ALL BY NAME
    FROM (
        SELECT NULL /* op_saving */
    )
)
SELECT
    ops.trace_id, ops.device, ops.op_id,
    max(least(ops.dur_ns, round(savings.saving_ns)))::BIGINT AS saving_ns,
    bool_or(coalesce(savings.left_out, FALSE)) AS left_out
FROM savings
JOIN gpu_ops AS ops USING (trace_id, op_id)
WHERE savings.saving_ns >= 1 OR savings.left_out
GROUP BY ops.trace_id, ops.device, ops.op_id
