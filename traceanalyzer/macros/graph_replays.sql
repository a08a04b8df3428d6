-- One row per launch of a graph of which an operation was recorded, as graph_launches describes them; `usual_launch_id`
-- is a launch of the same graph that was recorded whole and took as long as most of these. A macro: attribution reads it
-- before there are metrics.
CREATE OR REPLACE MACRO graph_replays() AS TABLE
WITH calls AS (
    SELECT trace_id, slice_id, start_ns
    FROM canonical.host_slices
    WHERE category IN ('runtime', 'driver')
      AND contains(name, 'GraphLaunch')
      AND calls_to(name, 'replay')
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
        trace_id, launch_id,
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
        trace_id, device, names,
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
        part.trace_id, part.device, part.names,
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
-- A call that waits for the device, or for a stream of it, and returns then: nothing was missing.
waits AS (
    SELECT trace_id, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    WHERE category IN ('runtime', 'driver')
      AND regexp_matches(name, '(Device|Stream|Ctx)Synchronize')
      AND trace_id IN (SELECT trace_id FROM beginnings)
),
followed AS (
    SELECT short.trace_id, short.launch_id, short.whole_names
    FROM (
        SELECT recorded.*, beginnings.whole_names, beginnings.missing_ns, calls.start_ns AS launched_ns
        FROM recorded
        JOIN beginnings USING (trace_id, device, names)
        JOIN calls ON calls.trace_id = recorded.trace_id AND calls.slice_id = recorded.launch_id
        WHERE recorded.graph_id IS NULL
    ) AS short
    ASOF LEFT JOIN (FROM canonical.gpu_ops WHERE trace_id IN (SELECT trace_id FROM beginnings)) AS following
        ON following.trace_id = short.trace_id
       AND following.device = short.device
       AND following.start_ns >= short.end_ns
    ASOF LEFT JOIN waits ON waits.trace_id = short.trace_id AND waits.end_ns >= short.end_ns
    WHERE (following.start_ns IS NULL OR 2 * (following.start_ns - short.end_ns) >= short.missing_ns)
      AND (
          waits.end_ns IS NULL
          OR waits.start_ns < short.launched_ns
          OR 2 * (waits.end_ns - short.end_ns) >= short.missing_ns
      )
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
usual AS (
    SELECT
        trace_id, graph,
        -- Without ids, a graph has as many operations as the longest of its launches.
        if(bool_or(graph_id IS NOT NULL), mode(op_count ORDER BY op_count DESC), max(op_count)) AS op_count
    FROM work
    GROUP BY trace_id, graph
),
typical AS (
    SELECT
        work.trace_id, work.graph,
        quantile_disc({'span_ns': work.end_ns - work.start_ns, 'launch_id': work.launch_id}, 0.5).launch_id AS launch_id
    FROM work
    JOIN usual USING (trace_id, graph, op_count)
    GROUP BY work.trace_id, work.graph
)
SELECT
    work.* EXCLUDE (graph_id, names),
    work.op_count < usual.op_count AS is_under_recorded,
    typical.launch_id AS usual_launch_id
FROM work
JOIN usual USING (trace_id, graph)
JOIN typical USING (trace_id, graph);
