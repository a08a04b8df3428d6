-- One row per stream and instant at which the number of launches that wait to start changes.
--
-- When a launch call starts, it enters the queue of every stream that it puts work on; it leaves a queue when the first
-- of its work starts on that stream. A graph launch is one entry in each of its streams however many kernels it
-- replays, because it takes one place in the device's own queue. Work is not counted if its call is not in the trace,
-- or if it started before its call (clocks that disagree). Changes that cancel each other at one instant give no row.
--
-- columns: trace, rank, device
--   stream   BIGINT   stream
--   trace_id INTEGER  key of the canonical tables
--   start_ns BIGINT   time of the change
--   dur_ns   BIGINT   time until the next change; NULL: the last change
--   depth    BIGINT   calls in the queue after the change
WITH firsts AS (
    SELECT trace_id, device, stream, launch_id, min(start_ns) AS end_ns
    FROM gpu_ops
    WHERE stream IS NOT NULL
    GROUP BY trace_id, device, stream, launch_id
),
entries AS (
    SELECT firsts.*, launches.start_ns
    FROM firsts
    JOIN launches USING (trace_id, device, launch_id)
),
instants AS (
    SELECT trace_id, device, stream, at_ns, sum(change) AS change
    FROM (
        SELECT trace_id, device, stream, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS change
        FROM entries
        WHERE end_ns > start_ns
    ) AS changes
    GROUP BY trace_id, device, stream, at_ns
    HAVING sum(change) <> 0
)
SELECT
    trace, rank, device, stream, trace_id, at_ns AS start_ns,
    lead(at_ns) OVER timeline - at_ns AS dur_ns,
    CAST(sum(change) OVER timeline AS BIGINT) AS depth
FROM instants
JOIN canonical.traces USING (trace_id)
WINDOW timeline AS (PARTITION BY trace_id, device, stream ORDER BY at_ns)
ORDER BY trace_id, device, stream, at_ns
