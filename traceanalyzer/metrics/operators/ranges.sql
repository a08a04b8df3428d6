-- One row per trace and name of ranges that the program marked (record_function, NVTX, XLA's annotations), and one per path.
--
-- A path is the names of the ranges around a range and its own; numbers of steps are left out of names. What ends before a
-- range does not contain it. A GPU operation lies in each range that is open on the thread of its launch call; a thread
-- that runs backward passes (autograd) stands in what is open on the thread that ran their forward operators. Busy time
-- is the union of the operations, so that work on two streams counts once; ranges share work, so rows do not add up.
-- At most 100 ranges inside each other are looked at.
--
-- columns: trace, rank, trace_id
--   name          VARCHAR  name of the range
--   path          VARCHAR  names from the outermost range to this one, joined by semicolons (in a name: \;); NULL: the row is
--                          of all ranges with the name
--   parent_path   VARCHAR  path of the range around it; NULL: none, or the row is of a name
--   depth         INTEGER  ranges around it; NULL: the row is of a name
--   call_count    BIGINT   ranges
--   dur_sum_ns    BIGINT   sum of their durations on the host
--   cut_count     BIGINT   ranges among them that were open when the recording stopped: how long they last is not known
--   cut_sum_ns    BIGINT   their part of dur_sum_ns, which a mean leaves out
--   host_sum_ns   BIGINT   as dur_sum_ns, counting time in which two of them are open on one thread once
--   host_self_ns  BIGINT   time on the host without that of the ranges inside on the same thread
--   busy_ns       BIGINT   time in which a GPU operation that was launched inside runs, summed over devices; NULL: no launch
--                          of GPU work was recorded, or the ranges begin and end on different threads
--   idle_ns       BIGINT   time in which one of them is open and no device of the trace works; NULL: no GPU work was
--                          recorded, or the clocks of host and device cannot be compared
--   op_count      BIGINT   GPU operations launched inside; NULL as busy_ns
WITH whole AS (
    SELECT trace_id, 0 AS step, -9223372036854775807 AS start_ns, 9223372036854775807 AS end_ns
    FROM canonical.traces
)
SELECT
    trace, rank, trace_id, name, path, parent_path, depth, call_count, dur_sum_ns, cut_count,
    cut_sum_ns, host_sum_ns, host_self_ns, busy_ns, idle_ns, op_count
FROM marked_ranges('whole')
ORDER BY trace_id, path NULLS FIRST, name
