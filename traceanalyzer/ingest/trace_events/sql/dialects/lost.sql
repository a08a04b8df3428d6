-- What the dialect leaves out or can say nothing of, by defect: how many events, and the first names of them.
SELECT
    'unknown-process-name' AS defect,
    count(*) AS event_count,
    string_agg(DISTINCT coalesce(process, 'without a name'), ', ' ORDER BY coalesce(process, 'without a name')) AS example
FROM recast
JOIN read_parquet($host) AS host USING (event_id)
LEFT JOIN process_names ON process_names.pid = host.pid
WHERE recast.class = 'unknown'
HAVING count(*) > 0
UNION ALL
SELECT 'unplaced-work', count(*), arg_min(host.name, event_id)
FROM recast
JOIN read_parquet($host) AS host USING (event_id)
WHERE recast.class = 'unplaced'
HAVING count(*) > 0
