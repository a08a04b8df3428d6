-- One row per host thread: what it is there for.
--
-- Launching: it calls the runtime or the driver of a device. Profiler: a thread of Nsight Systems, of CUPTI or of the
-- driver's event handling, by its name; it is not the program's, and its `poll` tops most tables of OS calls. Other:
-- the rest. Threads that only the scheduler saw are here, too.
--
-- columns: trace, rank, trace_id
--   pid          VARCHAR  process as written
--   tid          VARCHAR  thread as written
--   thread_id    INTEGER  threads.thread_id; NULL: only the scheduler saw the thread
--   thread_name  VARCHAR  display name; NULL: not recorded
--   role         VARCHAR  launching, profiler or other
WITH scheduled AS (
    SELECT DISTINCT trace_id, pid, tid
    FROM canonical.async_slices
    WHERE category = 'sched'
),
known AS (
    SELECT
        coalesce(threads.trace_id, scheduled.trace_id) AS trace_id,
        coalesce(threads.pid, scheduled.pid) AS pid,
        coalesce(threads.tid, scheduled.tid) AS tid,
        threads.thread_id, threads.thread_name
    FROM canonical.threads AS threads
    FULL JOIN scheduled
           ON scheduled.trace_id = threads.trace_id AND scheduled.pid = threads.pid AND scheduled.tid = threads.tid
),
callers AS (
    SELECT DISTINCT trace_id, thread_id
    FROM api_calls
)
SELECT
    traces.trace, traces.rank, known.trace_id, known.pid, known.tid, known.thread_id, known.thread_name,
    CASE
        WHEN known.thread_name IN ('[NSys]', '[NSys Comms]', 'CUPTI worker thread', 'cuda-EvtHandlr') THEN 'profiler'
        WHEN callers.thread_id IS NOT NULL THEN 'launching'
        ELSE 'other'
    END AS role
FROM known
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN callers USING (trace_id, thread_id)
ORDER BY known.trace_id, known.thread_id, known.pid, known.tid
