-- Begin and end events of threads, in the order they happened; where times are equal, in file order.
SELECT event_id, phase, raw_category, name, pid, tid, start_ns
FROM read_parquet($other)
WHERE phase IN ('B', 'E')
ORDER BY pid, tid, start_ns, event_id;
