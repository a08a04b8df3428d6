-- One row per trace: which rank it is a recording of, and which of that rank's recordings.
--
-- Traces are recordings of one rank if they have the same rank; if neither has one and both files have the name that
-- PyTorch's trace handler gives to one process (HOST_PID.TIME.pt.trace.json); or if none has a rank, they show work of
-- the same devices of one machine, or without any the threads of the same processes, and never at the same time. Times
-- before 2001 count from the start of a machine: they are compared only where the process ids are equal and no kernel
-- communicates.
--
-- columns: trace
--   rank            INTEGER  rank in the job; NULL: unknown
--   trace_id        INTEGER  key of the canonical tables
--   rank_id         INTEGER  first trace_id of the recordings of this rank
--   recording       BIGINT   number of the recording of its rank, from 1, by time
--   recording_count BIGINT   recordings of its rank in the run
--   session         BIGINT   recordings of several ranks with the same number were made together: by their order where
--                            each rank has as many recordings, else by their times
--   known_by        VARCHAR  rank, name or times: why it is one of several recordings; NULL: it is the only one
--   is_overlapping  BOOLEAN  another recording of the rank shows the same time: one of the two is of another run
WITH on_devices AS (
    SELECT trace_id, CAST(list_sort(list(DISTINCT device)) AS VARCHAR) AS devices, bool_or(is_comm) AS sends
    FROM canonical.gpu_ops
    GROUP BY trace_id
),
in_processes AS (
    SELECT trace_id, CAST(list_sort(list(DISTINCT pid)) AS VARCHAR) AS pids
    FROM canonical.threads
    GROUP BY trace_id
),
named AS (
    SELECT
        traces.trace_id, traces.trace, traces.rank,
        coalesce(traces.first_ns, 0) AS first_ns,
        coalesce(traces.last_ns, 0) AS last_ns,
        count(*) OVER (PARTITION BY traces.path) AS processes_of_file,
        traces.first_ns > 1000000000000000000 AS is_dated,
        nullif(regexp_extract(traces.trace, '^(.*_[0-9]+)[.][0-9]{10,20}([.]pt)?[.]trace[.]json', 1), '') AS process,
        coalesce(on_devices.devices, 'none, of ' || in_processes.pids)
        || coalesce(' of ' || traces.host, '')
        || CASE WHEN is_dated THEN '' ELSE ', undated, of ' || in_processes.pids END AS devices,
        is_dated OR NOT coalesce(on_devices.sends, FALSE) AS is_placed
    FROM canonical.traces
    LEFT JOIN on_devices USING (trace_id)
    LEFT JOIN in_processes USING (trace_id)
),
placed AS (
    SELECT
        *,
        max(last_ns) OVER (
            PARTITION BY devices, rank IS NULL AND process IS NULL
            ORDER BY first_ns, trace_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS busy_until
    FROM named
),
apart AS (
    SELECT
        *,
        devices IS NOT NULL
        AND bool_and(is_placed AND processes_of_file = 1 AND first_ns >= coalesce(busy_until, first_ns)) OVER unplaced AS is_apart
    FROM placed
    WINDOW unplaced AS (PARTITION BY devices, rank IS NULL AND process IS NULL)
),
grouped AS (
    SELECT
        *,
        CASE
            WHEN rank IS NOT NULL THEN 'rank'
            WHEN process IS NOT NULL THEN 'name'
            WHEN is_apart THEN 'times'
        END AS known_by,
        CASE
            WHEN rank IS NOT NULL THEN 'rank ' || rank
            WHEN process IS NOT NULL THEN 'name ' || process
            WHEN is_apart THEN 'devices ' || devices
            ELSE 'trace ' || trace_id
        END AS of_rank
    FROM apart
),
numbered AS (
    SELECT
        *,
        min(trace_id) OVER (PARTITION BY of_rank) AS rank_id,
        row_number() OVER in_time AS recording,
        count(*) OVER (PARTITION BY of_rank) AS recording_count,
        max(last_ns) OVER (in_time ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS own_until,
        max(last_ns) OVER (ORDER BY first_ns, trace_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS all_until
    FROM grouped
    WINDOW in_time AS (PARTITION BY of_rank ORDER BY first_ns, trace_id)
)
SELECT
    trace, rank, trace_id, rank_id, recording, recording_count,
    CASE
        WHEN min(recording_count) OVER () = max(recording_count) OVER () THEN recording
        ELSE 1 + CAST(sum(CAST(is_dated AND first_ns > coalesce(all_until, first_ns) AS INTEGER)) OVER (ORDER BY first_ns, trace_id) AS BIGINT)
    END AS session,
    CASE WHEN recording_count > 1 THEN known_by END AS known_by,
    coalesce(bool_or(is_dated AND first_ns < own_until) OVER (PARTITION BY of_rank), FALSE) AS is_overlapping
FROM numbered
ORDER BY trace_id
