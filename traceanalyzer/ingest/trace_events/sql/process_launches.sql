-- How much work of each device's process has the id of a call, by the process that made the call, and how
-- much of it starts after the call.
WITH calls AS (
    SELECT pid, correlation, min(start_ns) AS start_ns
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver') AND correlation IS NOT NULL
    GROUP BY pid, correlation
)
SELECT work.pid, calls.pid, count(*) AS work_count, count(*) FILTER (WHERE work.start_ns >= calls.start_ns) AS later_count
FROM (
    SELECT pid, start_ns, known_id(TRY_CAST(coalesce(args ->> '$.correlation', args ->> '$.corr_id') AS BIGINT)) AS correlation
    FROM read_parquet($gpu_events)
) AS work
JOIN calls ON calls.correlation = work.correlation
GROUP BY work.pid, calls.pid;
