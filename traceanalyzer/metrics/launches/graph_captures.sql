-- One row per capture of a stream into a graph: how many launches the host recorded there instead of running them.
--
-- A capture lasts from the call that begins it to the next call on the same thread that ends one. Meanwhile, launches
-- of that thread run nothing: their kernels run when the graph is replayed. A launch that did run (on a stream that is
-- not captured) has its kernel in the trace and does not count.
--
-- empty without: host_slices WHERE name ILIKE '%StreamBeginCapture%'
-- columns: trace, rank, trace_id
--   thread_id       INTEGER  thread that captures
--   start_ns        BIGINT   start of the call that begins the capture
--   end_ns          BIGINT   end of the call that ends the capture
--   captured_count  BIGINT   launches in the capture that have no operation on the device
WITH marks AS (
    SELECT
        trace_id, thread_id, start_ns,
        start_ns + dur_ns AS end_ns,
        name ILIKE '%StreamEndCapture%' AS is_end,
        slice_id
    FROM api_calls
    WHERE name ILIKE '%StreamBeginCapture%' OR name ILIKE '%StreamEndCapture%'
),
followed AS (
    SELECT
        trace_id, thread_id, start_ns, is_end,
        lead(is_end) OVER following AS is_next_end,
        lead(end_ns) OVER following AS next_end_ns
    FROM marks
    WINDOW following AS (PARTITION BY trace_id, thread_id ORDER BY start_ns, slice_id)
),
captures AS (
    SELECT trace_id, thread_id, start_ns, next_end_ns AS end_ns
    FROM followed
    WHERE NOT is_end AND is_next_end
),
idle_launches AS (
    SELECT calls.trace_id, calls.thread_id, calls.start_ns
    FROM api_calls AS calls
    LEFT JOIN (SELECT DISTINCT trace_id, launch_id FROM gpu_ops) AS ops
           ON ops.trace_id = calls.trace_id AND ops.launch_id = calls.slice_id
    WHERE calls_to(calls.name, 'launch')
      AND ops.launch_id IS NULL
)
SELECT
    traces.trace, traces.rank, captures.trace_id, captures.thread_id, captures.start_ns, captures.end_ns,
    count(idle_launches.start_ns) AS captured_count
FROM captures
JOIN canonical.traces USING (trace_id)
LEFT JOIN idle_launches
       ON idle_launches.trace_id = captures.trace_id
      AND idle_launches.thread_id = captures.thread_id
      AND idle_launches.start_ns >= captures.start_ns
      AND idle_launches.start_ns < captures.end_ns
GROUP BY ALL
ORDER BY captures.trace_id, captures.start_ns, captures.thread_id
