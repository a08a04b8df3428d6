-- Events that are GPU work, as written.
SELECT $base + position AS event_id, category, name, pid, tid, start_ns, dur_ns, args
FROM chunk
WHERE class = 'gpu' AND loss IS NULL;
