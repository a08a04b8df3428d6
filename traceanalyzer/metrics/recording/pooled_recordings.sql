-- One row per device of a trace that has an analysis window: its steps, and whether they are pooled.
--
-- Recordings of one rank are comparable if one process made them at different times and their steps run the same
-- kernels equally often on the same device. The report judges the comparable recordings that hold the most steps
-- together, of equal ones the latest, and pools their steps. Recordings of several ranks are judged together by their
-- session; one that lacks a rank does not show for whom the others wait. Every recording of a rank with a single one is
-- judged.
--
-- columns: trace
--   rank            INTEGER  rank in the job; NULL: unknown
--   device          INTEGER  device
--   trace_id        INTEGER  key of the canonical tables
--   rank_id         INTEGER  as in recordings
--   recording       BIGINT   as in recordings
--   recording_count BIGINT   as in recordings
--   session         BIGINT   as in recordings
--   step_count      BIGINT   kept steps; 0: none are known
--   window_ns       BIGINT   length of the analysis window
--   step_mean_ns    BIGINT   mean length of a kept step
--   step_min_ns     BIGINT   length of the shortest one
--   step_max_ns     BIGINT   length of the longest one
--   step_variance   DOUBLE   their variance (of all of them), in ns²
--   process_count   BIGINT   processes that made the recordings of this rank, where their names do not say that it is one
--   is_judged       BOOLEAN  the report is about this recording; FALSE: it is only listed
--   apart_because   VARCHAR  why its steps are not pooled with those of the recordings that are judged; NULL: they are,
--                            or it is judged alone
WITH step_times AS (
    SELECT
        trace_id, device,
        min(end_ns - start_ns) AS step_min_ns,
        max(end_ns - start_ns) AS step_max_ns,
        var_pop(end_ns - start_ns) AS step_variance
    FROM attribution.steps
    WHERE kept
    GROUP BY trace_id, device
),
placed AS (
    SELECT
        recordings.trace, recordings.rank, windows.device, recordings.trace_id, recordings.rank_id,
        recordings.recording, recordings.recording_count, recordings.session, recordings.known_by,
        recordings.is_overlapping, windows.step_count, windows.window_ns, windows.step_mean_ns,
        step_times.step_min_ns, step_times.step_max_ns, step_times.step_variance, windows.start_ns,
        windows.end_ns, devices.name AS device_name
    FROM attribution.windows
    JOIN recordings ON recordings.trace_id = windows.trace_id
    LEFT JOIN step_times ON step_times.trace_id = windows.trace_id AND step_times.device = windows.device
    LEFT JOIN canonical.devices ON devices.trace_id = windows.trace_id AND devices.device = windows.device
),
-- Also ranks with a single recording: a session may lack them.
again AS (
    SELECT *
    FROM placed
    WHERE recording_count > 1
       OR (rank IS NOT NULL AND EXISTS (SELECT 1 FROM placed AS several WHERE several.recording_count > 1))
),
-- The processes that launch work. Recordings of one rank that different processes made are of different runs.
launching AS (
    SELECT threads.trace_id, string_agg(DISTINCT threads.pid, ', ' ORDER BY threads.pid) AS pids
    FROM canonical.threads
    SEMI JOIN again ON again.trace_id = threads.trace_id
    SEMI JOIN (
        SELECT trace_id, thread_id
        FROM api_calls
    ) AS calls ON calls.trace_id = threads.trace_id AND calls.thread_id = threads.thread_id
    GROUP BY threads.trace_id
),
made AS (
    SELECT again.*, launching.pids, concat(traces.host, ' ', launching.pids) AS process
    FROM again
    JOIN canonical.traces ON traces.trace_id = again.trace_id
    LEFT JOIN launching ON launching.trace_id = again.trace_id AND again.known_by <> 'name'
),
processes AS (
    SELECT rank_id, count(DISTINCT process) FILTER (WHERE pids IS NOT NULL) AS process_count
    FROM made
    GROUP BY rank_id
),
-- How often each kernel runs in a step, and its part of the time of all kernels.
kernels AS (
    SELECT
        again.session, again.rank_id, again.device,
        coalesce(ops.name, '') AS name,
        count(*) / any_value(again.step_count) AS per_step,
        sum(ops.dur_ns) / sum(sum(ops.dur_ns)) OVER (PARTITION BY again.session, again.rank_id, again.device) AS share
    FROM again
    JOIN canonical.gpu_ops AS ops
      ON ops.trace_id = again.trace_id
     AND ops.device = again.device
     AND ops.start_ns >= again.start_ns
     AND ops.start_ns < again.end_ns
    WHERE ops.kind IN ('kernel', 'graph') AND again.step_count > 0 AND ops.dur_ns > 0
    GROUP BY again.session, again.rank_id, again.device, coalesce(ops.name, '')
),
matched AS (
    SELECT mine.session, theirs.session AS other, mine.rank_id, mine.device, sum(mine.share) AS same_share
    FROM kernels AS mine
    JOIN kernels AS theirs
      ON theirs.rank_id = mine.rank_id
     AND theirs.device = mine.device
     AND theirs.name = mine.name
     AND theirs.session <> mine.session
    WHERE abs(theirs.per_step - mine.per_step) <= 0.1 * greatest(theirs.per_step, mine.per_step)
    GROUP BY mine.session, theirs.session, mine.rank_id, mine.device
),
sessions AS (
    SELECT session, count(DISTINCT rank_id) AS rank_count, max(step_count) AS step_count
    FROM again
    GROUP BY session
    HAVING max(recording_count) > 1
),
-- Every device of two sessions, as each of the two shows it.
pairs AS (
    SELECT
        mine.session, theirs.session AS other,
        CASE
            WHEN made.is_overlapping OR compared.is_overlapping THEN 1
            WHEN made.process <> compared.process THEN 2
            WHEN made.trace_id IS NULL THEN 3
            WHEN compared.trace_id IS NULL THEN 4
            WHEN made.device_name <> compared.device_name THEN 5
            WHEN made.step_count = 0 OR compared.step_count = 0 THEN 6
            WHEN least(coalesce(one.same_share, 0), coalesce(two.same_share, 0)) < 0.9 THEN 7
        END AS difference
    FROM sessions AS mine
    JOIN sessions AS theirs ON theirs.session <> mine.session
    CROSS JOIN (SELECT DISTINCT rank_id, device FROM again) AS place
    LEFT JOIN made ON made.session = mine.session AND made.rank_id = place.rank_id AND made.device = place.device
    LEFT JOIN made AS compared
      ON compared.session = theirs.session AND compared.rank_id = place.rank_id AND compared.device = place.device
    LEFT JOIN matched AS one
      ON one.session = mine.session AND one.other = theirs.session
     AND one.rank_id = place.rank_id AND one.device = place.device
    LEFT JOIN matched AS two
      ON two.session = theirs.session AND two.other = mine.session
     AND two.rank_id = place.rank_id AND two.device = place.device
    WHERE made.trace_id IS NOT NULL OR compared.trace_id IS NOT NULL
),
compared AS (
    SELECT
        session, other,
        CASE min(difference)
            WHEN 1 THEN 'recordings of one rank show the same time, so they are of two runs'
            WHEN 2 THEN 'another process made it'
            WHEN 3 THEN 'it lacks a device that the judged ones show'
            WHEN 4 THEN 'it shows other devices'
            WHEN 5 THEN 'it ran on another model of device'
            WHEN 6 THEN 'steps are not known'
            WHEN 7 THEN 'its steps run other kernels'
        END AS because
    FROM pairs
    GROUP BY session, other
),
reference AS (
    SELECT sessions.session
    FROM sessions
    LEFT JOIN compared ON compared.other = sessions.session AND compared.because IS NULL
    LEFT JOIN sessions AS alike ON alike.session = compared.session
    GROUP BY sessions.session, sessions.rank_count, sessions.step_count
    ORDER BY
        sessions.rank_count DESC,
        sessions.step_count + coalesce(sum(alike.step_count), 0) DESC,
        sessions.session DESC
    LIMIT 1
)
SELECT
    placed.trace, placed.rank, placed.device, placed.trace_id, placed.rank_id, placed.recording,
    placed.recording_count, placed.session, placed.step_count, placed.window_ns, placed.step_mean_ns,
    placed.step_min_ns, placed.step_max_ns, placed.step_variance, processes.process_count,
    placed.recording_count = 1
    OR placed.session = (SELECT session FROM reference)
    OR (compared.session IS NOT NULL AND compared.because IS NULL) AS is_judged,
    CASE WHEN placed.recording_count > 1 THEN compared.because END AS apart_because
FROM placed
LEFT JOIN processes ON processes.rank_id = placed.rank_id
LEFT JOIN compared
  ON compared.session = placed.session
 AND compared.other = (SELECT session FROM reference)
 AND placed.recording_count > 1
ORDER BY placed.trace_id, placed.device
