-- The rows that a rule claims and none of the other rules named in $beside.
SELECT *
FROM (
    SELECT NULL /* claimed */
) AS claimed
WHERE (row_trace_id, row_device, item_id) NOT IN (
    SELECT (row_trace_id, row_device, item_id)
    FROM claims
    JOIN claim_order USING (position)
    WHERE claim_order.rule IN (SELECT unnest($beside::VARCHAR[]))
)
