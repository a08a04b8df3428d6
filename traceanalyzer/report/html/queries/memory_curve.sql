-- The memory of a device ($2) of a trace ($1) from $3 on in stretches of $4 ns: least and most in use, most reserved.
SELECT
    (start_ns - $3) // $4 AS stretch,
    min(allocated_bytes) AS least_bytes,
    max(allocated_bytes) AS most_bytes,
    max(reserved_bytes) AS reserved_bytes
FROM canonical.memory_events
WHERE trace_id = $1 AND device = $2 AND coalesce(device_type, 1) <> 0 AND allocated_bytes IS NOT NULL
GROUP BY stretch
ORDER BY stretch
