-- How much work of each device's process has the id of a call, by the process that made the call.
WITH calls AS (
    SELECT DISTINCT pid, correlation
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver') AND correlation IS NOT NULL
)
SELECT work.pid, calls.pid, count(*) AS work_count
FROM (
    SELECT pid, known_id(TRY_CAST(coalesce(args ->> '$.correlation', args ->> '$.corr_id') AS BIGINT)) AS correlation
    FROM read_parquet($gpu_events)
) AS work
JOIN calls ON calls.correlation = work.correlation
GROUP BY work.pid, calls.pid;
