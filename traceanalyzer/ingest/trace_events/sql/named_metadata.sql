-- Naming events that no table holds, by name, process and thread.
SELECT
    event_id,
    name || ' ' || coalesce(pid, '') || ' ' || coalesce(tid, '') AS key,
    CAST(args AS VARCHAR) AS value
FROM read_parquet($other)
WHERE phase = 'M'
    AND name NOT IN ('process_name', 'thread_name', 'process_sort_index', 'thread_sort_index')
ORDER BY event_id;
