-- The ledger of a device ($2) of a trace ($1) within a time ($3 to $4). Rows shorter than $5 that begin in one stretch of
-- that length and are in one bucket are one.
WITH inside AS (
    SELECT bucket, blame_name, start_ns, start_ns + dur_ns AS end_ns, dur_ns
    FROM attribution.ledger_rows
    WHERE trace_id = $1 AND device = $2 AND start_ns < $4 AND start_ns + dur_ns > $3
)
SELECT bucket, blame_name, start_ns, end_ns, 1 AS row_count
FROM inside
WHERE dur_ns >= $5
UNION ALL
SELECT bucket, CASE WHEN count(*) = 1 THEN min(blame_name) END, min(start_ns), max(end_ns), count(*)
FROM inside
WHERE dur_ns < $5
GROUP BY bucket, (start_ns - $3) // $5
ORDER BY start_ns, end_ns DESC, bucket
