-- How many events of the host, of devices, and of others start in each slot of time, the first and the last.
SELECT part, count(*) AS event_count, min(start_ns) AS first_ns, max(start_ns) AS last_ns
FROM (
    SELECT 'host' AS part, start_ns FROM read_parquet($host)
    UNION ALL
    SELECT 'gpu', start_ns FROM read_parquet($gpu)
)
WHERE start_ns <> 0
GROUP BY part, start_ns // $slot_ns;
