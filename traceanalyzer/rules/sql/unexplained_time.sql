-- One row per bucket: time of the analysis windows without compute that no finding owns; not of unjudged traces.
-- Nor of devices that only copy, beside devices of the same trace that compute.
SELECT ledger_rows.bucket, sum(ledger_rows.dur_ns)::BIGINT AS dur_ns
FROM ledger_rows
WHERE ledger_rows.kept
  AND NOT list_contains($unjudged::INTEGER[], ledger_rows.trace_id)
  AND ledger_rows.bucket <> 'compute'
  AND (ledger_rows.trace_id, ledger_rows.device) NOT IN (
      SELECT (copying.trace_id, copying.device)
      FROM windows AS copying
      JOIN windows AS computing USING (trace_id)
      WHERE copying.compute_ns = 0 AND computing.compute_ns > 0
  )
  AND NOT EXISTS (
      FROM claims
      WHERE claims.row_trace_id = ledger_rows.trace_id
        AND claims.row_device = ledger_rows.device
        AND claims.item_id = ledger_rows.row_id
        AND claims.bucket <> 'compute'
  )
GROUP BY ledger_rows.bucket
HAVING sum(ledger_rows.dur_ns) > 0
ORDER BY dur_ns DESC, bucket
