-- One row per ledger row of the analysis window that a rule's causes select.
SELECT
    trace_id, device, trace_id AS row_trace_id, device AS row_device, row_id AS item_id, step, dur_ns, bucket,
    confidence
FROM ledger_rows
WHERE kept
  -- The tail and waits of an unknown cause may have an explanation.
  AND coalesce(cause, bucket) IN (SELECT unnest($causes::VARCHAR[]))
  AND TRUE /* where */
