-- Steps of a thread follow each other. One that had not ended when the one of the next number began ends there; the
-- last, if it lasts a hundred times as long as most, with the last that its thread did.
WITH steps AS (
    SELECT
        event_id, name, pid, tid, start_ns, dur_ns,
        TRY_CAST(split_part(name, '#', 2) AS BIGINT) AS number,
        if(lead(number) OVER in_order = number + 1, lead(start_ns) OVER in_order, NULL) AS next_ns,
        lead(name) OVER in_order IS NULL AS is_last,
        count(*) OVER of_thread AS step_count,
        median(dur_ns) OVER of_thread AS usual_ns
    FROM read_parquet($files)
    WHERE category IN ('annotation', 'cpu_op') AND starts_with(name, 'ProfilerStep#')
    WINDOW of_thread AS (PARTITION BY pid, tid), in_order AS (of_thread ORDER BY start_ns, event_id)
),
overlong AS (
    FROM steps
    WHERE dur_ns > next_ns - start_ns + 50000 OR (is_last AND step_count >= 3 AND dur_ns > 100 * usual_ns)
)
SELECT event_id, name, dur_ns, coalesce(next_ns, (
    SELECT max(start_ns + dur_ns) FROM read_parquet($files) AS other
    WHERE other.pid = overlong.pid AND other.tid = overlong.tid
        AND other.event_id NOT IN (SELECT event_id FROM overlong)
)) - start_ns AS true_ns
FROM overlong
ORDER BY event_id;
