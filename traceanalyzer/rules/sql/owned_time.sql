-- One row per fired finding: the time that it alone owns.
WITH owners AS (
    SELECT
        row_trace_id,
        row_device,
        item_id,
        bucket = 'compute' AS is_compute,
        any_value(dur_ns) AS dur_ns,
        min(position) AS owner
    FROM claims
    GROUP BY ALL
)
SELECT
    owner,
    sum(dur_ns)::BIGINT AS owned_ns
FROM owners
GROUP BY owner
