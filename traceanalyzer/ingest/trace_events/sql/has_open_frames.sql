-- The files in which Python frames last beyond what called them, or beyond the start of its next call; or cannot be
-- compared, as they have no ids. The number of the file stands above 32 bits of the ids of events. Frames of one caller on one thread run one after the other: the last to start is the last to end.
WITH frames AS (
    SELECT event_id >> 32 AS file, hash(pid, tid) AS thread, frame_id, caller_id, start_ns, start_ns + dur_ns AS end_ns
    FROM read_parquet($host)
    WHERE category = 'python'
),
called AS (
    SELECT
        thread, caller_id,
        any_value(file) AS file,
        max(end_ns) AS end_ns,
        max(start_ns) AS last_start_ns,
        max_by(start_ns, end_ns) AS start_of_last_end_ns
    FROM frames
    WHERE frame_id IS NOT NULL
    GROUP BY thread, caller_id
)
SELECT file FROM frames WHERE frame_id IS NULL
UNION
SELECT file FROM called WHERE last_start_ns > start_of_last_end_ns AND end_ns > last_start_ns + $rounding_ns
UNION
SELECT callers.file
FROM frames AS callers
JOIN called ON called.thread = callers.thread AND called.caller_id = callers.frame_id
WHERE called.end_ns > callers.end_ns + $rounding_ns;
