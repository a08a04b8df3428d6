-- One row per trace, table and category: how many events of it were recorded.
WITH events AS (
    SELECT trace_id, 'GPU work' AS class, kind AS category FROM canonical.gpu_ops
    UNION ALL
    SELECT trace_id, 'host', category FROM canonical.host_slices
    UNION ALL
    SELECT trace_id, 'waits recorded', kind FROM canonical.syncs
    UNION ALL
    SELECT trace_id, 'allocator', kind FROM canonical.memory_events
    UNION ALL
    SELECT trace_id, 'other', 'counter sample' FROM canonical.counters
    UNION ALL
    SELECT trace_id, 'other', 'flow arrow end' FROM canonical.flows
    UNION ALL
    SELECT trace_id, 'other', 'instant' FROM canonical.instants
    UNION ALL
    SELECT trace_id, 'other', coalesce(category, 'asynchronous') FROM canonical.async_slices
)
SELECT traces.trace, events.class, events.category, count(*) AS event_count
FROM events
JOIN canonical.traces USING (trace_id)
GROUP BY traces.trace_id, traces.trace, events.class, events.category
ORDER BY traces.trace_id, events.class, event_count DESC, events.category
