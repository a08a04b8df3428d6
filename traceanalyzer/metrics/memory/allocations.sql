-- One row per trace, step and kind of allocation: how often memory was allocated or freed, how long it took, how many
-- bytes.
--
-- Every call of the device's runtime and driver (cudaMalloc, cudaFree, cudaHostAlloc, hip…, cuMem…, urUSM…) counts with its
-- time on the host; a driver call inside a runtime call counts once. Most of these calls wait for the device, so a step
-- that repeats them stalls. The framework's own allocator counts by its events, where they were recorded; they cost
-- almost nothing unless the allocator has to ask the driver. Nsight Systems records the driver's memory usage instead:
-- the same allocations as the calls, with sizes and devices. The step is the host's step in which the call or event
-- starts.
--
-- columns: trace, rank
--   device      INTEGER  device of the event; -1: the CPU; NULL: a call, which does not name its device
--   step        BIGINT   step of the host; NULL: outside steps
--   source      VARCHAR  driver (calls of the device's runtime or driver), framework (events of its allocator), or
--                        usage (memory that these calls allocated and freed, as Nsight Systems recorded it)
--   name        VARCHAR  call, or alloc, free, oom
--   alloc_count BIGINT   calls or events
--   sum_ns      BIGINT   sum of the calls' durations; NULL: events, which have no duration
--   max_ns      BIGINT   longest call
--   size_bytes  BIGINT   bytes of all events; NULL: calls, whose sizes are not recorded
WITH host_steps AS (
    SELECT trace_id, host_start_ns, any_value(step) AS step, max(host_end_ns) AS host_end_ns
    FROM attribution.steps
    GROUP BY trace_id, host_start_ns
),
calls AS (
    SELECT trace_id, slice_id, parent_id, name, start_ns, dur_ns
    FROM api_calls
    WHERE (contains(name, 'Malloc') OR contains(name, 'Free') OR contains(name, 'Host') OR starts_with(name, 'cuMem') OR starts_with(name, 'urUSM'))
      AND (calls_to(name, 'allocate') OR calls_to(name, 'free') OR calls_to(name, 'pin'))
),
events AS (
    SELECT
        trace_id, CAST(NULL AS INTEGER) AS device,
        'driver' AS source,
        name, start_ns, dur_ns, CAST(NULL AS BIGINT) AS size_bytes
    FROM calls
    WHERE NOT EXISTS (FROM calls AS outer_call WHERE outer_call.trace_id = calls.trace_id AND outer_call.slice_id = calls.parent_id)
    UNION ALL
    SELECT
        trace_id, device,
        if(format = 'nsys', 'usage', 'framework'),
        kind, start_ns, NULL,
        abs(memory_events.size_bytes)
    FROM memory_events
    JOIN canonical.traces USING (trace_id)
)
SELECT
    trace, rank, device,
    CASE WHEN events.start_ns < host_end_ns THEN step END AS step,
    source, name,
    count(*) AS alloc_count,
    CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
    max(dur_ns) AS max_ns,
    TRY_CAST(sum(events.size_bytes) AS BIGINT) AS size_bytes
FROM events
JOIN canonical.traces AS traces USING (trace_id)
ASOF LEFT JOIN host_steps ON host_steps.trace_id = events.trace_id AND host_steps.host_start_ns <= events.start_ns
GROUP BY traces.trace_id, trace, rank, device, CASE WHEN events.start_ns < host_end_ns THEN step END, source, name
ORDER BY traces.trace_id, step, source, sum_ns DESC, name, device
