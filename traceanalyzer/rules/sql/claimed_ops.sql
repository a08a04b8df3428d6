-- One row per kernel of the analysis window that a rule's condition selects, with its share of wall time.
SELECT
    trace_id, device, trace_id AS row_trace_id, device AS row_device, op_id AS item_id, step,
    wall_ns AS dur_ns,
    'compute' AS bucket,
    'resolved' AS confidence
FROM kernel_class
WHERE wall_ns > 0 AND TRUE /* compute_ops */
