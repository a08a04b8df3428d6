-- One row per ledger row of the analysis windows that a rule's causes select, charged to the device of the rank that it
-- waits for: trace_id and device are that one's, row_trace_id and row_device those of the row itself.
WITH blamed AS (
    SELECT
        traces.rank,
        min(windows.trace_id) AS trace_id,
        arg_min(windows.device, (windows.trace_id, windows.device)) AS device
    FROM windows
    JOIN traces USING (trace_id)
    WHERE traces.rank IS NOT NULL
    GROUP BY traces.rank
)
SELECT
    blamed.trace_id,
    blamed.device,
    ledger_rows.trace_id AS row_trace_id,
    ledger_rows.device AS row_device,
    row_id AS item_id,
    step,
    dur_ns,
    bucket,
    confidence
FROM ledger_rows
JOIN blamed ON blamed.rank = ledger_rows.blame_rank
WHERE kept
  AND cause IN (SELECT unnest($causes::VARCHAR[]))
  AND TRUE /* where */
