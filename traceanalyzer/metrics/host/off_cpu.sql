-- One row per launching thread whose scheduling was recorded: why it was not on a CPU.
--
-- Each interval off the CPU has one cause, the first that holds when the thread leaves it: ready: it could run but
-- got no core; gpu wait: inside a call that waits for the device (host_waits); os call: inside a call of the
-- operating system's libraries; api call: inside another call of the runtime or driver, in which the driver waits;
-- else other. The causes add up to off_cpu_ns. Where the states of threads were not recorded, ready_ns is NULL, and
-- that time is in the causes after it. Time before the first and after the last interval on a CPU does not count.
--
-- columns: trace, rank, trace_id
--   pid          VARCHAR  process as written
--   tid          VARCHAR  thread as written
--   thread_name  VARCHAR  display name; NULL: not recorded
--   off_count    BIGINT   intervals off the CPU
--   off_cpu_ns   BIGINT   sum of them
--   longest_ns   BIGINT   longest
--   ready_ns     BIGINT   could run, but got no core; NULL: states not recorded
--   gpu_wait_ns  BIGINT   in calls that wait for the device
--   os_call_ns   BIGINT   in calls of the operating system's libraries
--   api_call_ns  BIGINT   in other calls of the runtime or driver
--   other_ns     BIGINT   none of these was recorded
WITH off_slices AS (
    SELECT intervals.*
    FROM off_cpu_intervals AS intervals
    JOIN thread_roles AS roles USING (trace_id, thread_id)
    WHERE roles.role = 'launching'
),
-- The calls around an interval: at most a few, as runtime calls nest driver calls and those nest OS calls.
calls AS (
    SELECT
        slices.trace_id, slices.thread_id, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        CASE
            WHEN slices.category = 'os' THEN 'os'
            WHEN waits.call_id IS NOT NULL THEN 'wait'
            ELSE 'api'
        END AS kind
    FROM canonical.host_slices AS slices
    LEFT JOIN host_waits AS waits ON waits.trace_id = slices.trace_id AND waits.call_id = slices.slice_id
    SEMI JOIN off_slices ON off_slices.trace_id = slices.trace_id AND off_slices.thread_id = slices.thread_id
    WHERE slices.category IN ('runtime', 'driver') OR slices.raw_category = 'OSRT_API'
),
-- The latest end that calls of a kind reach, from their start on: an interval lies in one if it starts before that.
reaches AS (
    SELECT
        trace_id, thread_id, kind, start_ns,
        max(max(end_ns)) OVER (PARTITION BY trace_id, thread_id, kind ORDER BY start_ns) AS end_ns
    FROM calls
    GROUP BY trace_id, thread_id, kind, start_ns
),
causes AS (
    SELECT
        off_slices.trace_id, off_slices.thread_id, off_slices.dur_ns,
        off_slices.is_ready IS NOT NULL AS has_states,
        CASE
            WHEN off_slices.is_ready THEN 'ready'
            WHEN waits.end_ns > off_slices.start_ns THEN 'wait'
            WHEN os_calls.end_ns > off_slices.start_ns THEN 'os'
            WHEN api_calls.end_ns > off_slices.start_ns THEN 'api'
            ELSE 'other'
        END AS cause
    FROM off_slices
    ASOF LEFT JOIN (FROM reaches WHERE kind = 'wait') AS waits
            ON waits.trace_id = off_slices.trace_id
           AND waits.thread_id = off_slices.thread_id
           AND waits.start_ns <= off_slices.start_ns
    ASOF LEFT JOIN (FROM reaches WHERE kind = 'os') AS os_calls
            ON os_calls.trace_id = off_slices.trace_id
           AND os_calls.thread_id = off_slices.thread_id
           AND os_calls.start_ns <= off_slices.start_ns
    ASOF LEFT JOIN (FROM reaches WHERE kind = 'api') AS api_calls
            ON api_calls.trace_id = off_slices.trace_id
           AND api_calls.thread_id = off_slices.thread_id
           AND api_calls.start_ns <= off_slices.start_ns
)
SELECT
    roles.trace, roles.rank, roles.trace_id, roles.pid, roles.tid, roles.thread_name,
    count(*) AS off_count,
    CAST(sum(dur_ns) AS BIGINT) AS off_cpu_ns,
    max(dur_ns) AS longest_ns,
    CASE
        WHEN bool_or(has_states) THEN CAST(coalesce(sum(dur_ns) FILTER (WHERE cause = 'ready'), 0) AS BIGINT)
    END AS ready_ns,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE cause = 'wait'), 0) AS BIGINT) AS gpu_wait_ns,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE cause = 'os'), 0) AS BIGINT) AS os_call_ns,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE cause = 'api'), 0) AS BIGINT) AS api_call_ns,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE cause = 'other'), 0) AS BIGINT) AS other_ns
FROM causes
JOIN thread_roles AS roles USING (trace_id, thread_id)
GROUP BY roles.trace, roles.rank, roles.trace_id, roles.thread_id, roles.pid, roles.tid, roles.thread_name
ORDER BY roles.trace_id, off_cpu_ns DESC, roles.thread_id
