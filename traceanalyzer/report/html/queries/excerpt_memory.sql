-- The memory that the allocator has in use on a device ($2) of a trace ($1) within a time ($3 to $4). One row per stretch
-- of $5 ns with an event: its first event with the most in use in it, and its last event with what is in use then; the
-- last event before the time stands at its start.
WITH events AS (
    SELECT start_ns AS at_ns, event_id, allocated_bytes AS value
    FROM canonical.memory_events
    WHERE trace_id = $1 AND device = $2 AND coalesce(device_type, 1) <> 0 AND allocated_bytes IS NOT NULL
      AND start_ns < $4
),
inside AS (
    SELECT CAST($3 AS BIGINT) AS at_ns, -1 AS event_id, arg_max(value, (at_ns, event_id)) AS value
    FROM events
    WHERE at_ns <= $3
    HAVING count(*) > 0
    UNION ALL
    SELECT at_ns, event_id, value
    FROM events
    WHERE at_ns > $3
)
SELECT min(at_ns) AS at_ns, max(value) AS most, max(at_ns) AS last_at_ns, arg_max(value, (at_ns, event_id)) AS last_value
FROM inside
GROUP BY (at_ns - $3) // $5
ORDER BY at_ns
