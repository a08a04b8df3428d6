-- Slices on no thread: annotations on the device, the profiler's spans, accelerator rows, and async begin and end
-- events, which nest among those of one category, id and name (and process, where the id is local to it). Those that
-- never end are open until the recording ends.
WITH marks AS (
    SELECT
        *,
        coalesce(id, id2 ->> '$.global', id2 ->> '$.local') AS async_id,
        CASE WHEN id2 ->> '$.local' IS NOT NULL THEN pid END AS scope_pid,
        phase IN ('b', 'S') AS begins
    FROM read_parquet($other)
    WHERE phase IN ('b', 'e', 'S', 'F')
),
levels AS (
    SELECT
        *,
        sum(CASE WHEN begins THEN 1 ELSE -1 END) OVER (
            PARTITION BY raw_category, async_id, name, scope_pid ORDER BY start_ns, event_id ROWS UNBOUNDED PRECEDING
        ) + CASE WHEN begins THEN 0 ELSE 1 END AS level
    FROM marks
),
pairs AS (
    SELECT
        *,
        lead(start_ns) OVER same_level AS next_ns,
        lead(begins) OVER same_level AS next_begins
    FROM levels
    WINDOW same_level AS (
        PARTITION BY raw_category, async_id, name, scope_pid, level ORDER BY start_ns, event_id
    )
)
SELECT
    event_id,
    pid,
    tid,
    'async' AS category,
    raw_category,
    name,
    async_id,
    start_ns + $base_ns AS start_ns,
    coalesce(CASE WHEN NOT next_begins THEN next_ns END, greatest($last_ns, start_ns)) - start_ns AS dur_ns
FROM pairs
WHERE begins
UNION ALL
SELECT
    event_id,
    pid,
    tid,
    CASE phase WHEN 'n' THEN 'async' ELSE category END AS category,
    raw_category,
    name,
    id AS async_id,
    start_ns + $base_ns AS start_ns,
    coalesce(dur_ns, 0) AS dur_ns
FROM read_parquet($other)
WHERE class = 'async' OR phase = 'n'
ORDER BY event_id;
