-- One row per trace, step and name of ranges that the program marked, and one per path: the metric ranges, of each step.
--
-- A range is cut to the steps on the host, and counts in each that it reaches into. It holds the GPU operations that were
-- launched in the step, whenever they run. In a trace without GPU work, the steps are those that the profiler marked.
--
-- columns: trace, rank, trace_id
--   step          BIGINT   number of the step
--   name          VARCHAR  name of the range
--   path          VARCHAR  as in ranges; NULL: the row is of all ranges with the name
--   parent_path   VARCHAR  path of the range around it; NULL: none, or the row is of a name
--   depth         INTEGER  ranges around it; NULL: the row is of a name
--   call_count    BIGINT   ranges that are open in the step
--   dur_sum_ns    BIGINT   sum of their durations in it on the host
--   cut_count     BIGINT   ranges among them that were open when the recording stopped: how long they last is not known
--   cut_sum_ns    BIGINT   their part of dur_sum_ns, which a mean leaves out
--   host_sum_ns   BIGINT   as dur_sum_ns, counting time in which two of them are open on one thread once
--   host_self_ns  BIGINT   time on the host without that of the ranges inside on the same thread
--   busy_ns       BIGINT   time in which a GPU operation that was launched inside runs, summed over devices; NULL as in ranges
--   idle_ns       BIGINT   time in which one of them is open and no device of the trace works; NULL as in ranges
--   op_count      BIGINT   GPU operations launched inside; NULL as busy_ns
WITH host_steps AS (
    SELECT trace_id, step, min(host_start_ns) AS start_ns, max(host_end_ns) AS end_ns
    FROM attribution.steps
    GROUP BY trace_id, step
    UNION ALL
    SELECT trace_id, CAST(regexp_extract(name, '\d+$') AS BIGINT) AS step, min(start_ns), max(start_ns + dur_ns)
    FROM canonical.host_slices
    ANTI JOIN attribution.steps USING (trace_id)
    WHERE marks_step(category, raw_category, name) AND regexp_matches(name, '\d{1,18}$')
    GROUP BY trace_id, step
)
SELECT
    trace, rank, trace_id, step, name, path, parent_path, depth, call_count, dur_sum_ns, cut_count,
    cut_sum_ns, host_sum_ns, host_self_ns, busy_ns, idle_ns, op_count
FROM marked_ranges('host_steps')
ORDER BY trace_id, step, path NULLS FIRST, name
