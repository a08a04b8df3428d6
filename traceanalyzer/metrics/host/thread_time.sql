-- One row per host thread whose scheduling was recorded: how long it ran on a CPU, and how often it moved.
--
-- A thread runs from when it is switched in to when it is switched out. If the recording begins or ends while it
-- runs, the time is cut at the first or last scheduling event of the trace, and open_count says so. Only Nsight
-- Systems records scheduling (`--cpuctxsw=process-tree`); of other traces there are no rows.
--
-- columns: trace, rank, trace_id
--   pid               VARCHAR  process as written
--   tid               VARCHAR  thread as written
--   thread_name       VARCHAR  display name; NULL: not recorded
--   role              VARCHAR  launching, profiler (not the program's) or other
--   recorded_ns       BIGINT   from the first to the last scheduling event of the trace
--   on_cpu_ns         BIGINT   time on a CPU
--   on_cpu_share      DOUBLE   on_cpu_ns of recorded_ns, 0 to 1
--   ready_ns          BIGINT   time in which the thread could run but got no core; NULL: states not recorded
--   slice_count       BIGINT   intervals on a CPU
--   longest_slice_ns  BIGINT   longest of them
--   migration_count   BIGINT   intervals on another CPU than the interval before
--   open_count        BIGINT   intervals cut at the begin or end of the recording
WITH running AS (
    SELECT trace_id, pid, tid, name AS cpu, start_ns, start_ns + dur_ns AS end_ns, event_id
    FROM canonical.async_slices
    WHERE category = 'sched'
),
recordings AS (
    SELECT trace_id, min(start_ns) AS first_ns, max(greatest(start_ns, end_ns)) AS last_ns
    FROM (
        SELECT trace_id, start_ns, end_ns FROM running
        UNION ALL
        SELECT trace_id, start_ns, start_ns + dur_ns FROM off_cpu_intervals
    )
    GROUP BY trace_id
),
-- A thread that is first seen when it leaves the CPU has run since the recording began.
already_running AS (
    SELECT off_cpu.trace_id, off_cpu.pid, off_cpu.tid, min(off_cpu.start_ns) AS end_ns
    FROM off_cpu_intervals AS off_cpu
    LEFT JOIN running
           ON running.trace_id = off_cpu.trace_id
          AND running.pid = off_cpu.pid
          AND running.tid = off_cpu.tid
          AND running.start_ns <= off_cpu.start_ns
    GROUP BY off_cpu.trace_id, off_cpu.pid, off_cpu.tid
    HAVING min(running.start_ns) IS NULL OR min(running.start_ns) > min(off_cpu.start_ns)
),
intervals AS (
    SELECT
        running.trace_id, running.pid, running.tid, running.cpu, running.start_ns,
        coalesce(running.end_ns, recordings.last_ns) AS end_ns,
        running.end_ns IS NULL AS is_open,
        running.event_id
    FROM running
    JOIN recordings USING (trace_id)
    UNION ALL
    SELECT
        already_running.trace_id, already_running.pid, already_running.tid, NULL, recordings.first_ns,
        already_running.end_ns, TRUE, -1
    FROM already_running
    JOIN recordings USING (trace_id)
),
ordered AS (
    SELECT
        *,
        cpu <> lag(cpu) OVER (PARTITION BY trace_id, pid, tid ORDER BY start_ns, event_id) AS is_migration
    FROM intervals
),
thread_sums AS (
    SELECT
        trace_id, pid, tid,
        CAST(sum(end_ns - start_ns) AS BIGINT) AS on_cpu_ns,
        count(*) AS slice_count,
        max(end_ns - start_ns) AS longest_slice_ns,
        count(*) FILTER (WHERE is_migration) AS migration_count,
        count(*) FILTER (WHERE is_open) AS open_count
    FROM ordered
    GROUP BY trace_id, pid, tid
),
ready AS (
    SELECT trace_id, pid, tid, CAST(coalesce(sum(dur_ns) FILTER (WHERE is_ready), 0) AS BIGINT) AS ready_ns
    FROM off_cpu_intervals
    GROUP BY ALL
)
SELECT
    roles.trace, roles.rank, roles.trace_id, roles.pid, roles.tid, roles.thread_name, roles.role,
    recordings.last_ns - recordings.first_ns AS recorded_ns,
    thread_sums.on_cpu_ns,
    thread_sums.on_cpu_ns / nullif(recordings.last_ns - recordings.first_ns, 0) AS on_cpu_share,
    CASE WHEN recorders.trace_id IS NOT NULL THEN coalesce(ready.ready_ns, 0) END AS ready_ns,
    thread_sums.slice_count, thread_sums.longest_slice_ns, thread_sums.migration_count, thread_sums.open_count
FROM thread_sums
JOIN recordings USING (trace_id)
JOIN thread_roles AS roles
  ON roles.trace_id = thread_sums.trace_id AND roles.pid = thread_sums.pid AND roles.tid = thread_sums.tid
LEFT JOIN (SELECT DISTINCT trace_id FROM off_cpu_intervals WHERE is_ready IS NOT NULL) AS recorders
       ON recorders.trace_id = thread_sums.trace_id
LEFT JOIN ready
       ON ready.trace_id = thread_sums.trace_id AND ready.pid = thread_sums.pid AND ready.tid = thread_sums.tid
ORDER BY
    roles.trace_id,
    CASE roles.role WHEN 'launching' THEN 0 WHEN 'other' THEN 1 ELSE 2 END,
    thread_sums.on_cpu_ns DESC,
    roles.pid, roles.tid
