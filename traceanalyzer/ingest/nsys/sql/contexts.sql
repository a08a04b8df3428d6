-- Contexts, with the instant at which each was created. Since 2025 the profiler notes it (a flush "on context created");
-- all versions manage resources of CUPTI while a context is created, three or four times in a row, and before 2025 that
-- is all they note, which tells only where there is one context.
WITH listed AS (
    SELECT DISTINCT contextId, deviceId, processId
    FROM cuda_context
    WHERE getvariable('pid') IS NULL
        OR processId IS NULL
        OR processId = getvariable('pid')
),
numbered AS (
    SELECT *, row_number() OVER (ORDER BY contextId) AS number, count(*) OVER () AS context_count
    FROM listed
),
noted AS (
    SELECT start, value LIKE '% on context created' AS is_creation
    FROM profiler_overhead
    JOIN strings ON id = nameId
    WHERE belongs(globalTid)
        AND (value LIKE '% on context created' OR value LIKE 'CUPTI%Resource Management')
),
creations AS (
    SELECT start, row_number() OVER (ORDER BY start) AS number, count(*) OVER () AS creation_count
    FROM noted
    WHERE is_creation
)
SELECT
    contextId AS context,
    deviceId::INTEGER AS device,
    processId::VARCHAR AS pid,
    getvariable('base_ns') + CASE
        WHEN creation_count = context_count THEN start
        WHEN context_count = 1 THEN (SELECT min(start) FROM noted)
    END AS created_ns
FROM numbered
LEFT JOIN creations USING (number)
WHERE contextId IS NOT NULL
ORDER BY context;
