-- One row per launch of a recorded graph: what the device did for it, and whether all of it was recorded.
--
-- A graph is known by its id, else by the sequence of its operations' names. A launch with fewer operations than most
-- launches of its graph is under-recorded: idle time inside it may be work that is missing. Without ids, a launch whose
-- names are the beginning of another's is one of the same graph where nothing runs after it for at least half the time
-- that the missing operations take elsewhere: a shorter graph would be followed by the next work. Where the profiler
-- recorded a replay as one operation, its nodes are not known.
--
-- columns:
--   trace              VARCHAR  name of the trace
--   rank               INTEGER  rank in the job
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
    SELECT
        trace_id,
        slice_id,
        parent_id,
        name,
        start_ns,
        dur_ns
    FROM canonical.host_slices
    WHERE category IN ('runtime', 'driver')
      AND contains(name, 'GraphLaunch')
      AND regexp_matches(name, '^(cuda|hip|cu)GraphLaunch')
),
owned AS (
    SELECT
        ops.*,
        uncovered_ns(
            ops.start_ns,
            ops.start_ns + ops.dur_ns,
            max(ops.start_ns + ops.dur_ns) OVER (
                PARTITION BY ops.trace_id, ops.launch_id
                ORDER BY ops.start_ns, ops.dur_ns, ops.op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS added_ns
    FROM canonical.gpu_ops AS ops
    SEMI JOIN calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
),
recorded AS MATERIALIZED (
    SELECT
        trace_id,
        launch_id,
        arg_min(device, start_ns) AS device,
        any_value(CAST(graph_id AS VARCHAR)) AS graph_id,
        string_agg(coalesce(name, ''), chr(10) ORDER BY start_ns, op_id) || chr(10) AS names,
        count(*) AS op_count,
        bool_or(kind <> 'graph') AS has_nodes,
        min(start_ns) AS start_ns,
        max(start_ns + dur_ns) AS end_ns,
        CAST(sum(added_ns) AS BIGINT) AS busy_ns
    FROM owned
    GROUP BY trace_id, launch_id
),
contents AS MATERIALIZED (
    SELECT
        trace_id,
        device,
        names,
        any_value(op_count) AS op_count,
        count(*) AS launch_count,
        CAST(avg(end_ns - start_ns) AS BIGINT) AS span_ns
    FROM recorded
    WHERE graph_id IS NULL
    GROUP BY trace_id, device, names
),
-- Of contents that are beginnings of others, the most frequent of those, the longest first.
beginnings AS (
    SELECT
        part.trace_id,
        part.device,
        part.names,
        arg_max(whole.names, (whole.launch_count, whole.op_count)) AS whole_names,
        arg_max(whole.span_ns, (whole.launch_count, whole.op_count)) - any_value(part.span_ns) AS missing_ns
    FROM contents AS part
    JOIN contents AS whole
      ON whole.trace_id = part.trace_id
     AND whole.device = part.device
     AND whole.op_count > part.op_count
     AND starts_with(whole.names, part.names)
    GROUP BY part.trace_id, part.device, part.names
),
followed AS (
    SELECT
        short.trace_id,
        short.launch_id,
        short.whole_names
    FROM (
        SELECT recorded.*, beginnings.whole_names, beginnings.missing_ns
        FROM recorded
        JOIN beginnings USING (trace_id, device, names)
        WHERE recorded.graph_id IS NULL
    ) AS short
    ASOF LEFT JOIN (FROM canonical.gpu_ops WHERE trace_id IN (SELECT trace_id FROM beginnings)) AS following
        ON following.trace_id = short.trace_id
       AND following.device = short.device
       AND following.start_ns >= short.end_ns
    WHERE following.start_ns IS NULL OR 2 * (following.start_ns - short.end_ns) >= short.missing_ns
),
work AS (
    SELECT
        recorded.*,
        coalesce(
            recorded.graph_id,
            CAST(hash(rtrim(coalesce(followed.whole_names, recorded.names), chr(10))) AS VARCHAR)
        ) AS graph
    FROM recorded
    LEFT JOIN followed USING (trace_id, launch_id)
),
-- Where a driver call lies inside a runtime call, the call that operations name counts; without operations, the outer
-- call.
launches AS (
    SELECT
        calls.trace_id,
        calls.slice_id,
        calls.name,
        calls.start_ns AS host_start_ns,
        calls.dur_ns,
        work.* EXCLUDE (trace_id, launch_id, graph_id, names)
    FROM calls
    LEFT JOIN work ON work.trace_id = calls.trace_id AND work.launch_id = calls.slice_id
    WHERE work.launch_id IS NOT NULL
       OR NOT EXISTS (
           FROM calls AS other
           WHERE other.trace_id = calls.trace_id
             AND (other.slice_id = calls.parent_id OR other.parent_id = calls.slice_id)
       )
),
usual AS (
    SELECT
        trace_id,
        graph,
        -- Without ids, a graph has as many operations as the longest of its launches.
        if(bool_or(graph_id IS NOT NULL), mode(op_count ORDER BY op_count DESC), max(op_count)) AS op_count
    FROM work
    GROUP BY trace_id, graph
)
SELECT
    traces.trace,
    traces.rank,
    launches.device,
    launches.trace_id,
    launches.slice_id AS launch_id,
    launches.name AS call,
    launches.host_start_ns,
    launches.dur_ns AS host_dur_ns,
    launches.graph,
    CASE
        WHEN launches.graph IS NOT NULL
        THEN row_number() OVER (PARTITION BY launches.trace_id, launches.graph ORDER BY launches.host_start_ns, launches.slice_id)
    END AS occurrence,
    coalesce(launches.op_count, 0) AS op_count,
    launches.has_nodes,
    launches.start_ns - launches.host_start_ns AS first_wait_ns,
    launches.start_ns,
    launches.end_ns - launches.start_ns AS span_ns,
    launches.busy_ns,
    launches.op_count < usual.op_count AS is_under_recorded
FROM launches
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN usual ON usual.trace_id = launches.trace_id AND usual.graph = launches.graph
ORDER BY launches.trace_id, launches.host_start_ns, launches.slice_id
