-- One row per launch of a recorded graph: what the device did for it, and whether all of it was recorded.
--
-- A graph is known by its id, else by the sequence of its operations' names. A launch with fewer operations than most
-- launches of its graph is under-recorded: idle time inside it may be work that is missing. Without ids, a launch whose
-- names are the beginning of another's is one of the same graph where nothing runs after it for at least half the time
-- that the missing operations take elsewhere: a shorter graph would be followed by the next work. A synchronization that
-- returns there says that nothing is missing. Where the profiler recorded a replay as one operation, its nodes are not
-- known.
--
-- columns: trace, rank
--   device             INTEGER  device; NULL: no operation of it was recorded
--   trace_id           INTEGER  traces.trace_id
--   launch_id          BIGINT   the call (host_slices.slice_id)
--   call               VARCHAR  its name
--   host_start_ns      BIGINT   start of the call
--   host_dur_ns        BIGINT   duration of the call
--   graph              VARCHAR  id of the graph, else a hash of its operations' names; NULL: no operation was recorded
--   occurrence         BIGINT   number of this launch among those of its graph, from 1
--   op_count           BIGINT   GPU operations recorded
--   has_nodes          BOOLEAN  its nodes were recorded, not the replay as a whole
--   first_wait_ns      BIGINT   from the start of the call to the start of the first operation
--   start_ns           BIGINT   start of the first operation
--   span_ns            BIGINT   from there to the end of the last operation
--   busy_ns            BIGINT   time in which at least one operation runs
--   is_under_recorded  BOOLEAN  fewer operations than most launches of its graph; NULL: no operation was recorded
WITH calls AS (
    SELECT trace_id, slice_id, parent_id, name, start_ns, dur_ns
    FROM api_calls
    WHERE contains(name, 'GraphLaunch')
      AND calls_to(name, 'replay')
),
-- Where a driver call lies inside a runtime call, the call that operations name counts; without operations, the outer
-- call.
launches AS (
    SELECT
        calls.trace_id, calls.slice_id, calls.name, calls.start_ns AS host_start_ns, calls.dur_ns,
        work.* EXCLUDE (trace_id, launch_id)
    FROM calls
    LEFT JOIN graph_replays() AS work ON work.trace_id = calls.trace_id AND work.launch_id = calls.slice_id
    WHERE work.launch_id IS NOT NULL
       OR NOT EXISTS (
           FROM calls AS other
           WHERE other.trace_id = calls.trace_id
             AND (other.slice_id = calls.parent_id OR other.parent_id = calls.slice_id)
       )
)
SELECT
    traces.trace, traces.rank, launches.device, launches.trace_id, launches.slice_id AS launch_id,
    launches.name AS call, launches.host_start_ns, launches.dur_ns AS host_dur_ns, launches.graph,
    CASE
        WHEN launches.graph IS NOT NULL
        THEN row_number() OVER (PARTITION BY launches.trace_id, launches.graph ORDER BY launches.host_start_ns, launches.slice_id)
    END AS occurrence,
    coalesce(launches.op_count, 0) AS op_count,
    launches.has_nodes,
    launches.start_ns - launches.host_start_ns AS first_wait_ns,
    launches.start_ns,
    launches.end_ns - launches.start_ns AS span_ns,
    launches.busy_ns, launches.is_under_recorded
FROM launches
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY launches.trace_id, launches.host_start_ns, launches.slice_id
