-- The longest ledger rows that a finding claims, with where to find each in a viewer.
SELECT
    ledger_rows.step,
    round((ledger_rows.start_ns - traces.first_ns) / 1e6, 3) AS at_ms,
    round(ledger_rows.dur_ns / 1e6, 3) AS ms,
    ledger_rows.blame_name AS during,
    ledger_rows.blame_op AS operator,
    ledger_rows.blame_annotation AS annotation,
    ledger_rows.blame_python AS python,
    ledger_rows.start_ns,
    ledger_rows.dur_ns
FROM ledger_rows
JOIN traces USING (trace_id)
WHERE ledger_rows.kept
  AND ledger_rows.trace_id = $trace_id
  AND ledger_rows.device = $device
  AND ledger_rows.cause IN (SELECT unnest($causes::VARCHAR[]))
  AND TRUE /* where */
ORDER BY ledger_rows.dur_ns DESC, ledger_rows.start_ns
LIMIT 5
