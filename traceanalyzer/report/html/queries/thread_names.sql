-- One row per thread of a trace ($1): its number and its names.
SELECT thread_id, tid, thread_name
FROM canonical.threads
WHERE trace_id = $1
ORDER BY thread_id
