-- One row per host cause and operation that it delayed: those that begin in the pause between two compute kernels in
-- which a claimed row lies, or end it. The rows of a pause follow each other by cause, so a row does not say which.
WITH claimed AS (
    SELECT NULL /* claimed */
),
computed AS (
    SELECT trace_id, device, start_ns, start_ns + dur_ns AS end_ns FROM ledger_rows WHERE bucket = 'compute'
),
pauses AS (
    SELECT DISTINCT
        rows.trace_id,
        rows.device,
        rows.cause,
        before.end_ns AS since_ns,
        after.start_ns AS until_ns
    FROM claimed
    JOIN ledger_rows AS rows
      ON rows.trace_id = claimed.row_trace_id
     AND rows.device = claimed.row_device
     AND rows.row_id = claimed.item_id
    ASOF LEFT JOIN computed AS before
        ON before.trace_id = rows.trace_id
       AND before.device = rows.device
       AND before.start_ns <= rows.start_ns
    ASOF LEFT JOIN computed AS after
        ON after.trace_id = rows.trace_id
       AND after.device = rows.device
       AND after.start_ns > rows.start_ns
)
SELECT
    pauses.trace_id,
    pauses.device,
    pauses.cause,
    ops.op_id
FROM pauses
JOIN gpu_ops AS ops
  ON ops.trace_id = pauses.trace_id
 AND ops.device = pauses.device
 AND ops.start_ns >= coalesce(pauses.since_ns, ops.start_ns)
 AND ops.start_ns <= coalesce(pauses.until_ns, ops.start_ns)
