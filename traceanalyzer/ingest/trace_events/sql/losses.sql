-- What of the chunk is not read as written: one row a defect, with the first event's position in the chunk.
WITH judged AS (
    SELECT
        rowid,
        name,
        CASE
            WHEN phase IS NULL AND coalesce(name, raw_category, pid, tid, args) IS NOT NULL THEN 'missing-phase'
            WHEN phase NOT IN ('X', 'M', 'B', 'E', 'i', 'I', 'R', 'n', 'b', 'e', 'S', 'F', 's', 't', 'f', 'C')
            THEN 'unknown-phase'
            WHEN phase <> 'M' AND start_ns IS NULL THEN 'bad-timestamp'
            WHEN phase = 'X' AND (dur_ns IS NULL OR dur_ns > 2592000000000000) THEN 'bad-duration'
            WHEN phase = 'X' AND dur_ns < 0 THEN 'negative-duration'
        END AS defect
    FROM chunk
)
SELECT
    defect,
    count(*) AS defect_count,
    min(rowid) AS first_row,
    arg_min(name, rowid) AS example
FROM judged
WHERE defect IS NOT NULL
GROUP BY defect;
