-- Every host thread, numbered in the order of its first event; names from the naming events of the whole file.
CREATE OR REPLACE TABLE threads AS
WITH used AS (
    SELECT pid, tid, event_id FROM read_parquet($host)
    UNION ALL
    SELECT pid, tid, event_id
    FROM read_parquet($other)
    WHERE phase IN ('B', 'E', 'i', 'I', 'R', 's', 't', 'f')
),
first_use AS (
    SELECT pid, tid, min(event_id) AS event_id
    FROM used
    GROUP BY pid, tid
),
names AS (
    SELECT
        pid, tid,
        arg_max(args ->> '$.name', event_id) FILTER (WHERE name = 'thread_name') AS thread_name,
        arg_max(args ->> '$.name', event_id) FILTER (WHERE name = 'process_name') AS process_name
    FROM read_parquet($other)
    WHERE phase = 'M' AND name IN ('thread_name', 'process_name')
    GROUP BY pid, tid
),
process_names AS (
    SELECT pid, any_value(process_name) AS process_name
    FROM names
    WHERE process_name IS NOT NULL
    GROUP BY pid
),
numbered AS (
    SELECT
        CAST(row_number() OVER (ORDER BY first_use.event_id) - 1 AS INTEGER) AS thread_id,
        first_use.pid, first_use.tid, process_names.process_name, names.thread_name
    FROM first_use
    LEFT JOIN names ON names.pid IS NOT DISTINCT FROM first_use.pid AND names.tid IS NOT DISTINCT FROM first_use.tid
    LEFT JOIN process_names ON process_names.pid IS NOT DISTINCT FROM first_use.pid
),
-- Ascend draws the calls of a thread in a process of their own. Where a thread takes them from a queue, it launches for
-- the one that has the steps.
asking AS (
    SELECT thread_id, tid, (pid, tid) IN (SELECT (pid, tid) FROM read_parquet($host) WHERE name LIKE 'ProfilerStep#%') AS has_steps
    FROM numbered
    WHERE regexp_matches(process_name, '^[Pp]ython3?$') AND 'CANN' IN (SELECT process_name FROM process_names)
)
SELECT
    *,
    CASE WHEN process_name = 'CANN'
        THEN coalesce(
            (SELECT min(thread_id) FROM asking WHERE asking.tid = numbered.tid),
            (SELECT min(thread_id) FROM asking WHERE has_steps)
        )
    END AS twin_id
FROM numbered;
