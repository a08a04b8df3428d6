-- Python frames in the order in which each thread entered them: callers before what they call. Frames that the profiler
-- left open end when the last frame of their process does.
WITH stops AS (
    SELECT pid, max(start_ns + dur_ns) AS stop_ns
    FROM read_parquet($host)
    WHERE category = 'python'
    GROUP BY pid
)
SELECT
    event_id, frames.pid, tid, frame_id, caller_id, start_ns,
    start_ns + dur_ns AS end_ns,
    stop_ns,
    starts_with(name, '<built-in ') AS is_built_in
FROM read_parquet($host) AS frames
JOIN stops ON stops.pid IS NOT DISTINCT FROM frames.pid
WHERE category = 'python' AND NOT (start_ns = 0 AND $drop_zero)
ORDER BY frames.pid, tid, start_ns, frame_id NULLS LAST, dur_ns DESC, event_id;
