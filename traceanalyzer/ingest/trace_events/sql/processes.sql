-- The processes of a file, in the order of their first event: which have calls of a runtime, operators and GPU work,
-- how many launches have the id of another one of their name, and what they are called. The places of host slices and of
-- GPU work are numbers of events.
WITH seen AS (
    SELECT
        pid,
        min(event_id) AS first_id,
        count(*) FILTER (WHERE category IN ('runtime', 'driver') AND raw_category IS NOT NULL) AS call_count,
        count(*) FILTER (WHERE category = 'cpu_op') AS operator_count,
        0 AS gpu_count,
        min(event_id) AS first_slice_id,
        max(event_id) AS last_slice_id
    FROM read_parquet($host)
    GROUP BY pid
    UNION ALL
    SELECT pid, min(event_id), 0, 0, count(*), NULL, NULL
    FROM read_parquet($gpu_events)
    GROUP BY pid
    UNION ALL
    SELECT pid, min(event_id), 0, 0, 0, NULL, NULL
    FROM read_parquet($other)
    GROUP BY pid
),
launches AS (
    SELECT pid, correlation, name, count(DISTINCT start_ns) AS launch_count
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver') AND correlation IS NOT NULL AND contains(name, 'Launch')
    GROUP BY pid, correlation, name
),
-- A recorder whose numbers begin anew after few counts up between: they fall about once a round. Those of ranks, which
-- launch at the same time, fall or stay with every launch.
cyclic AS (
    SELECT pid, name
    FROM (
        SELECT
            pid, name,
            count(*) OVER (PARTITION BY pid, name, correlation) AS round_count,
            correlation <= lag(correlation) OVER (PARTITION BY pid, name ORDER BY start_ns, correlation) AS falls
        FROM (
            SELECT DISTINCT pid, name, correlation, start_ns
            FROM read_parquet($host)
            WHERE category IN ('runtime', 'driver') AND correlation IS NOT NULL AND contains(name, 'Launch')
        )
    )
    GROUP BY pid, name
    HAVING max(round_count) > 2 AND count(*) FILTER (WHERE falls) < 2 * max(round_count)
),
-- A number that a tenth of many launches have, or a third of few, is none of a launch, but what a recorder writes where it
-- knows none.
repeated AS (
    SELECT
        pid,
        sum(launch_count - 1) FILTER (
            WHERE launch_count <= greatest(64, all_count / 10) AND launch_count <= greatest(8, all_count / 3)
        ) AS repeated_count
    FROM (SELECT *, sum(launch_count) OVER (PARTITION BY pid) AS all_count FROM launches)
    ANTI JOIN cyclic USING (pid, name)
    GROUP BY pid
),
names AS (
    SELECT pid, list(DISTINCT args ->> if(name = 'process_name', '$.name', '$.labels')) AS names
    FROM read_parquet($other)
    WHERE phase = 'M' AND name IN ('process_name', 'process_labels')
    GROUP BY pid
)
SELECT
    seen.pid,
    CAST(min(first_id) AS BIGINT) AS first_id,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(operator_count) AS BIGINT) AS operator_count,
    CAST(sum(gpu_count) AS BIGINT) AS gpu_count,
    min(first_slice_id) AS first_slice_id,
    max(last_slice_id) AS last_slice_id,
    CAST(coalesce(any_value(repeated.repeated_count), 0) AS BIGINT) AS repeated_count,
    coalesce(any_value(names.names), []) AS names
FROM seen
LEFT JOIN names ON names.pid IS NOT DISTINCT FROM seen.pid
LEFT JOIN repeated ON repeated.pid IS NOT DISTINCT FROM seen.pid
GROUP BY seen.pid
ORDER BY min(first_id);
