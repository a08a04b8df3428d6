-- The ledger rows of a device that findings claim whose rules refine $rule: they show these stretches.
SELECT claims.item_id
FROM claims
JOIN claim_order AS finer USING (position)
WHERE claims.row_trace_id = $trace_id AND claims.row_device = $device AND list_contains(finer.refines, $rule)
