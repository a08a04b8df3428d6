-- How many events are of processes of which the dialect says nothing, and the names of those.
SELECT
    count(*) AS event_count,
    string_agg(DISTINCT coalesce(process, 'without a name'), ', ' ORDER BY coalesce(process, 'without a name')) AS processes
FROM recast
JOIN read_parquet($host) AS host USING (event_id)
LEFT JOIN process_names ON process_names.pid = host.pid
WHERE recast.class = 'unknown'
