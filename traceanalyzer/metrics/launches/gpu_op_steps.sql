-- One row per GPU operation: the step in which it starts, and whether the analysis counts it.
--
-- The step is the device's step that contains the operation's start (see steps). An operation is kept if it starts in
-- the analysis window.
--
-- columns: trace_id
--   op_id    BIGINT  the operation (gpu_ops.op_id)
--   step     BIGINT  step of the device; NULL: outside steps
--   kept     BOOLEAN the operation starts in the analysis window
WITH begun AS (
    SELECT trace_id, device, step, start_ns, end_ns
    FROM attribution.steps
    WHERE start_ns IS NOT NULL
)
SELECT
    ops.trace_id, ops.op_id,
    CASE WHEN ops.start_ns < begun.end_ns THEN begun.step END AS step,
    coalesce(ops.start_ns >= windows.start_ns AND ops.start_ns < windows.end_ns, false) AS kept
FROM gpu_ops AS ops
ASOF LEFT JOIN begun ON begun.trace_id = ops.trace_id AND begun.device = ops.device AND ops.start_ns >= begun.start_ns
LEFT JOIN attribution.windows ON windows.trace_id = ops.trace_id AND windows.device = ops.device
