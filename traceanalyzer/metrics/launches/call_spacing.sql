-- One row per trace with runtime calls: how far apart they usually are.
--
-- A thread that launches one kernel after the other calls the runtime every few microseconds. A stretch that is many
-- times longer is a pause, however short it is.
--
-- columns: trace, rank, trace_id
--   call_count  BIGINT   calls of the runtime or the driver, on all threads
--   median_ns   DOUBLE   median time from the start of a call to the start of the next one; NULL: there is one call
WITH calls AS (
    SELECT
        trace_id,
        lead(start_ns) OVER (PARTITION BY trace_id ORDER BY start_ns, slice_id) - start_ns AS until_next_ns
    FROM api_calls
)
SELECT traces.trace, traces.rank, trace_id, count(*) AS call_count, median(calls.until_next_ns) AS median_ns
FROM calls
JOIN traces USING (trace_id)
GROUP BY traces.trace, traces.rank, trace_id
