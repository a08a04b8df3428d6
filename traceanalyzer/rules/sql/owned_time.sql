-- One row per fired finding: the time that it alone owns.
WITH owners AS (
    SELECT
        claims.trace_id,
        claims.device,
        claims.item_id,
        claims.bucket = 'compute' AS is_compute,
        any_value(claims.dur_ns) AS dur_ns,
        arg_min(claims.rule, claim_order.position) AS owner
    FROM claims
    JOIN claim_order USING (rule, trace_id, device)
    GROUP BY ALL
)
SELECT
    owner,
    trace_id,
    device,
    sum(dur_ns)::BIGINT AS owned_ns
FROM owners
GROUP BY owner, trace_id, device
