-- The largest allocations of a device ($2) of a trace ($1) that live at a time ($3), of those made since the trace began,
-- by size: how many, and the operator that the first of them was made in (NULL: none is recorded).
WITH events AS (
    SELECT address, kind, size_bytes, thread_id, start_ns, event_id
    FROM canonical.memory_events
    WHERE trace_id = $1 AND device = $2 AND coalesce(device_type, 1) <> 0 AND start_ns <= $3 AND address IS NOT NULL
),
last_events AS (
    SELECT arg_max(kind, (start_ns, event_id)) AS kind, arg_max(size_bytes, (start_ns, event_id)) AS size_bytes,
           arg_max(thread_id, (start_ns, event_id)) AS thread_id, max(start_ns) AS start_ns
    FROM events
    GROUP BY address
),
largest AS (
    SELECT size_bytes, count(*) AS live_count, min(start_ns) AS start_ns, arg_min(thread_id, start_ns) AS thread_id
    FROM last_events
    WHERE kind = 'alloc' AND size_bytes > 0
    GROUP BY size_bytes
    ORDER BY size_bytes * count(*) DESC, size_bytes DESC
    LIMIT 10
),
operators AS (
    SELECT largest.size_bytes, arg_max(slices.name, (slices.depth, slices.slice_id)) AS name
    FROM largest
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = $1
     AND slices.category = 'cpu_op'
     AND slices.thread_id = largest.thread_id
     AND slices.start_ns <= largest.start_ns
     AND slices.start_ns + slices.dur_ns >= largest.start_ns
    GROUP BY largest.size_bytes
)
SELECT size_bytes, live_count, size_bytes * live_count AS sum_bytes, start_ns, operators.name AS operator
FROM largest
LEFT JOIN operators USING (size_bytes)
ORDER BY sum_bytes DESC, size_bytes DESC
