-- One row per interval in which a host thread was off the CPU, between two on it, and whether it could have run.
--
-- Only Nsight Systems records scheduling (`--cpuctxsw=process-tree`) and, as it may leave them out, the states in which
-- threads leave the CPU; of other traces there are no rows. A thread is ready in an interval where it could run and got
-- no core.
--
-- columns: trace, rank, trace_id
--   thread_id  INTEGER  thread (canonical.threads)
--   pid        VARCHAR  process as written
--   tid        VARCHAR  thread as written
--   start_ns   BIGINT   when it left the CPU
--   dur_ns     BIGINT   length
--   is_ready   BOOLEAN  it could run; NULL: states are not recorded in the trace
WITH thread_states AS (
    -- Only Nsight Systems records states; the arguments of other traces are long, so they are not read.
    SELECT trace_id, event_id, CAST(json_extract(args, '$.thread_state') AS INTEGER) AS state
    FROM canonical.event_args
    SEMI JOIN (FROM canonical.traces WHERE format = 'nsys') AS recorders USING (trace_id)
),
intervals AS (
    SELECT slices.trace_id, slices.thread_id, slices.start_ns, slices.dur_ns, thread_states.state
    FROM canonical.host_slices AS slices
    LEFT JOIN thread_states ON thread_states.trace_id = slices.trace_id AND thread_states.event_id = slices.slice_id
    WHERE slices.raw_category = 'SCHED_EVENTS'
),
-- State 1 is runnable. A state of how a thread ended (5) says nothing about why others left the CPU.
recorders AS (
    SELECT DISTINCT trace_id
    FROM intervals
    WHERE state IN (1, 2, 3, 4, 6, 7)
)
SELECT
    traces.trace, traces.rank, intervals.trace_id, intervals.thread_id, threads.pid, threads.tid,
    intervals.start_ns, intervals.dur_ns,
    CASE WHEN recorders.trace_id IS NOT NULL THEN coalesce(intervals.state = 1, FALSE) END AS is_ready
FROM intervals
JOIN canonical.traces AS traces USING (trace_id)
JOIN canonical.threads AS threads USING (trace_id, thread_id)
LEFT JOIN recorders USING (trace_id)
ORDER BY intervals.trace_id, intervals.thread_id, intervals.start_ns, intervals.dur_ns
