-- Instants other than allocator events.
SELECT event_id, thread_id, raw_category AS category, name, scope, start_ns + $base_ns AS start_ns
FROM read_parquet($other) AS instants
JOIN threads ON threads.pid IS NOT DISTINCT FROM instants.pid AND threads.tid IS NOT DISTINCT FROM instants.tid
WHERE phase IN ('i', 'I', 'R')
    AND (name NOT IN ('[memory]', '[OutOfMemory]') OR name IS NULL)
ORDER BY event_id;
