-- Slices on no thread: annotations on the device, the profiler's spans, accelerator rows, and async begin and end
-- events. Those that never end are open until the recording ends.
SELECT
    event_id, pid, tid,
    'async' AS category,
    raw_category, name, async_id,
    start_ns + $base_ns AS start_ns,
    coalesce(end_ns, greatest($last_ns, start_ns)) - start_ns AS dur_ns
FROM async_begins($other)
UNION ALL
SELECT
    event_id, pid, tid,
    CASE phase WHEN 'n' THEN 'async' ELSE category END AS category,
    raw_category, name, id AS async_id,
    start_ns + $base_ns AS start_ns,
    coalesce(dur_ns, 0) AS dur_ns
FROM read_parquet($other)
WHERE class = 'async' OR phase = 'n'
ORDER BY event_id;
