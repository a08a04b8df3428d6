-- One row per lane, cell of a length ($1), bucket and whether it is in the analyzed time: the time that the ledger has there.
-- Times begin at a zero of each trace ($2: their numbers, $3: the zeros).
WITH zeros AS (
    SELECT unnest(CAST($2 AS INTEGER[])) AS trace_id, unnest(CAST($3 AS BIGINT[])) AS zero_ns
),
pieces AS (
    SELECT trace_id, device, bucket, kept, start_ns, dur_ns FROM attribution.ledger_rows
    UNION ALL
    SELECT trace_id, NULL, bucket, kept, start_ns, dur_ns FROM host_ledger_rows
),
placed AS (
    SELECT
        trace_id, device, bucket, kept,
        start_ns - zero_ns AS start_ns,
        start_ns - zero_ns + dur_ns AS end_ns,
        unnest(range((start_ns - zero_ns) // $1, (start_ns - zero_ns + dur_ns - 1) // $1 + 1)) AS cell
    FROM pieces
    JOIN zeros USING (trace_id)
)
SELECT
    trace_id, device, cell, bucket, kept,
    CAST(sum(least(end_ns, (cell + 1) * $1) - greatest(start_ns, cell * $1)) AS BIGINT) AS dur_ns
FROM placed
GROUP BY ALL
ORDER BY ALL
