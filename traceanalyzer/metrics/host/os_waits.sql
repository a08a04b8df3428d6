-- One row per host thread and call of the operating system's libraries: what the thread waited for, and how long.
--
-- Kinds: lock: a mutex, read-write lock, semaphore or futex; condition: a condition variable, a barrier or the end of
-- another thread; sleep; yield; poll: for files or sockets; other: the rest, which works rather than waits. Calls
-- shorter than the recording's threshold (by default 1 us) are not recorded, so that counts and times are lower
-- bounds. Nested calls count in full. Only Nsight Systems records these calls (`--trace=osrt`); of other traces there
-- are no rows.
--
-- columns: trace, rank, trace_id
--   pid           VARCHAR  process as written
--   tid           VARCHAR  thread as written
--   thread_name   VARCHAR  display name; NULL: not recorded
--   role          VARCHAR  launching, profiler (not the program's) or other
--   name          VARCHAR  call
--   kind          VARCHAR  lock, condition, sleep, yield, poll or other
--   call_count    BIGINT   calls
--   sum_ns        BIGINT   sum of durations
--   max_ns        BIGINT   longest
--   in_steps_ns   BIGINT   sum of durations of calls that start in an analysed step; NULL: no steps
WITH step_spans AS (
    SELECT DISTINCT trace_id, host_start_ns AS start_ns, host_end_ns AS end_ns
    FROM attribution.steps
    WHERE kept
),
calls AS (
    SELECT
        slices.trace_id, slices.thread_id, slices.name, slices.dur_ns,
        coalesce(slices.start_ns < step_spans.end_ns, FALSE) AS is_in_step
    FROM canonical.host_slices AS slices
    ASOF LEFT JOIN step_spans ON step_spans.trace_id = slices.trace_id AND step_spans.start_ns <= slices.start_ns
    WHERE slices.raw_category = 'OSRT_API'
),
call_sums AS (
    SELECT
        trace_id, thread_id, name,
        count(*) AS call_count,
        CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
        max(dur_ns) AS max_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE is_in_step), 0) AS BIGINT) AS in_steps_ns
    FROM calls
    GROUP BY trace_id, thread_id, name
)
SELECT
    roles.trace, roles.rank, call_sums.trace_id, roles.pid, roles.tid, roles.thread_name, roles.role,
    call_sums.name,
    CASE
        WHEN regexp_matches(
            call_sums.name,
            '^pthread_(mutex_(timed|clock)?lock|rwlock_(timed|clock)?(rd|wr)lock|spin_lock)$'
            || '|^sem_(timed|clock)?wait$|^futex$'
        ) THEN 'lock'
        WHEN regexp_matches(call_sums.name, '^pthread_(cond_(timed|clock)?wait|barrier_wait|(timed|clock)?join(_np)?)$')
        THEN 'condition'
        WHEN regexp_matches(call_sums.name, '^((clock_nano|nano|u)?sleep|pause|sig(timed)?wait(info)?)$') THEN 'sleep'
        WHEN call_sums.name = 'sched_yield' THEN 'yield'
        WHEN regexp_matches(call_sums.name, '^(p?(poll|select)|epoll_p?wait2?)$') THEN 'poll'
        ELSE 'other'
    END AS kind,
    call_sums.call_count, call_sums.sum_ns, call_sums.max_ns,
    CASE WHEN call_sums.trace_id IN (SELECT trace_id FROM step_spans) THEN call_sums.in_steps_ns END AS in_steps_ns
FROM call_sums
JOIN thread_roles AS roles USING (trace_id, thread_id)
ORDER BY
    call_sums.trace_id,
    CASE roles.role WHEN 'launching' THEN 0 WHEN 'other' THEN 1 ELSE 2 END,
    call_sums.sum_ns DESC,
    roles.pid, roles.tid, call_sums.name
