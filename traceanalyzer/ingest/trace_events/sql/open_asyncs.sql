-- The async begin events that never end, by what `async_slices` matches.
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
)
SELECT event_id, name
FROM levels
QUALIFY begins
    AND coalesce(lead(begins) OVER (
        PARTITION BY raw_category, async_id, name, scope_pid, level ORDER BY start_ns, event_id
    ), true)
ORDER BY event_id;
