-- One row per trace and device whose allocator recorded how much is in use, the highest use first: when that was, what
-- was held then, and the memory of the device (NULL: not recorded).
SELECT
    traces.trace_id, traces.trace, traces.rank, traces.first_ns, events.device,
    max(allocated_bytes) AS peak_bytes,
    arg_max(events.start_ns, (allocated_bytes, -events.start_ns)) AS peak_ns,
    max(reserved_bytes) AS reserved_bytes,
    min(events.start_ns) AS start_ns,
    max(events.start_ns) AS end_ns,
    count(*) AS event_count,
    any_value(devices.memory_bytes) AS memory_bytes
FROM canonical.memory_events AS events
JOIN canonical.traces USING (trace_id)
LEFT JOIN canonical.devices USING (trace_id, device)
WHERE events.device >= 0 AND coalesce(events.device_type, 1) <> 0 AND events.allocated_bytes IS NOT NULL
GROUP BY ALL
HAVING count(*) > 1
ORDER BY peak_bytes DESC, traces.trace_id, events.device
