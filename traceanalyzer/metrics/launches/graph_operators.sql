-- One row per graph and operation in it: the operator, module and line of Python that launched it when it was captured.
--
-- A graph's operations are those of its first replay that is recorded in full (graph_launches), in the order of the
-- graph's nodes, else of their starts. They are compared with every capture of the run whose trace may be the same
-- rank's (captured_launches). Where the profiler recorded the kernels' names there, the nth kernel of a name in the
-- graph is the nth of that name in a capture that has as many of them, if both stand in the same place among all that are
-- alike; copies and memsets likewise. Without names, a capture fits whose kernels, copies and memsets are as many as the
-- graph's, in the same order. Without nodes, starts tell the order of one stream only: names that run on several are not
-- matched. A capture of another graph fits none: at least half of both must match. The capture with most of the operations
-- counts, then the one with fewest other launches; where several are alike, only what they agree on. Where several graphs
-- fit fewer captures in full, nothing is known: at least one of them was captured elsewhere. Shapes are known only where all
-- of the graph or all of the capture matched: a graph of another batch size runs some of the same kernels. Without a
-- capture, nothing is matched.
--
-- columns: trace, rank, trace_id
--   graph          VARCHAR  graph, as in graph_launches
--   position       BIGINT   number of the operation in the replay, by start, from 1, as in graph_kernels
--   kind           VARCHAR  kernel, memcpy or memset
--   name           VARCHAR  operation, as written
--   replay_count   BIGINT   replays of the graph that are recorded in full
--   sum_ns         BIGINT   sum of the durations at this position in these replays
--   is_matched     BOOLEAN  a launch of a capture was found for it
--   matched_by     VARCHAR  name: the captured kernel has its name; order: only its number tells; NULL: not matched
--   capture_count  BIGINT   captures that fit the graph equally well
--   capture_trace  VARCHAR  trace of the capture; NULL: not matched, or several
--   op_id          BIGINT   the operation in that first replay (gpu_ops.op_id)
--   owner_id       INTEGER  where the first of the fitting captures lies: traces.trace_id or capture_files.capture_id
--   captured_id    BIGINT   its launch there (capture_slices.slice_id or host_slices.slice_id)
--   operator       VARCHAR  operator that launched it in the capture
--   input_shapes   VARCHAR  shapes of its inputs, a JSON list
--   module         VARCHAR  innermost module around the launch
--   python         VARCHAR  innermost line of Python around the launch: file(line): function
WITH whole AS MATERIALIZED (
    SELECT trace, rank, trace_id, graph, launch_id, host_start_ns
    FROM graph_launches
    WHERE has_nodes AND NOT is_under_recorded
),
replayed AS MATERIALIZED (
    SELECT
        whole.trace_id, whole.graph, whole.launch_id, ops.kind, ops.name, ops.dur_ns, ops.start_ns, ops.op_id,
        ops.graph_node_id, ops.stream,
        row_number() OVER (PARTITION BY whole.trace_id, whole.launch_id ORDER BY ops.start_ns, ops.op_id) AS position
    FROM whole
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = whole.trace_id AND ops.launch_id = whole.launch_id
),
sums AS (
    SELECT trace_id, graph, position, count(*) AS replay_count, CAST(sum(dur_ns) AS BIGINT) AS sum_ns
    FROM replayed
    GROUP BY trace_id, graph, position
),
first_replays AS (
    SELECT trace, rank, trace_id, graph, arg_min(launch_id, host_start_ns) AS launch_id
    FROM whole
    GROUP BY trace, rank, trace_id, graph
),
nodes AS MATERIALIZED (
    SELECT
        first_replays.trace, first_replays.rank, replayed.*,
        -- Operations whose order is known: all of them by their nodes, else those of a stream.
        if(count(replayed.graph_node_id) OVER in_graph = count(*) OVER in_graph, 0, replayed.stream) AS lane
    FROM first_replays
    JOIN replayed USING (trace_id, graph, launch_id)
    WINDOW in_graph AS (PARTITION BY replayed.trace_id, replayed.graph)
),
captures AS (
    SELECT
        captured.trace_id, captured.trace, captured.rank, captured.capture,
        count(captured.kernel) > 0 AS has_names,
        count(*) AS captured_count
    FROM captured_launches AS captured
    GROUP BY captured.trace_id, captured.trace, captured.rank, captured.capture
),
-- What an operation and a launch must share, by the names that the capture has.
captured_keys AS MATERIALIZED (
    SELECT
        captured.*,
        captures.has_names,
        coalesce(captured.kernel, captured.kind) AS key,
        row_number() OVER (in_capture ORDER BY captured.position) AS nth,
        count(*) OVER in_capture AS key_count
    FROM captured_launches AS captured
    JOIN captures USING (trace_id, capture)
    WINDOW in_capture AS (
        PARTITION BY captured.trace_id, captured.capture, coalesce(captured.kernel, captured.kind)
    )
),
pairs AS (
    SELECT
        first_replays.trace_id, first_replays.graph, captures.trace_id AS capture_trace_id, captures.capture,
        captures.has_names
    FROM first_replays
    JOIN captures
      ON captures.trace_id = first_replays.trace_id
      OR captures.rank IS NULL
      OR first_replays.rank IS NULL
      OR captures.rank = first_replays.rank
),
node_keys AS (
    SELECT
        nodes.trace_id, nodes.graph, nodes.position, nodes.lane, named.has_names,
        if(named.has_names AND nodes.kind = 'kernel', nodes.name, nodes.kind) AS key,
        row_number() OVER (in_graph ORDER BY nodes.graph_node_id, nodes.start_ns, nodes.op_id) AS nth,
        row_number() OVER (
            PARTITION BY nodes.trace_id, nodes.graph, named.has_names
            ORDER BY nodes.graph_node_id, nodes.start_ns, nodes.op_id
        ) AS place,
        count(*) OVER in_graph AS key_count,
        min(nodes.lane) OVER in_graph IS NOT DISTINCT FROM max(nodes.lane) OVER in_graph AS is_in_one_lane
    FROM nodes
    CROSS JOIN (SELECT unnest([TRUE, FALSE]) AS has_names) AS named
    WINDOW in_graph AS (
        PARTITION BY nodes.trace_id, nodes.graph, named.has_names,
            if(named.has_names AND nodes.kind = 'kernel', nodes.name, nodes.kind)
    )
),
matches AS (
    SELECT
        pairs.trace_id, pairs.graph, node_keys.position, pairs.capture_trace_id, pairs.capture,
        pairs.has_names, captured.trace AS capture_trace, captured.launch_id AS captured_id, captured.kernel,
        captured.operator, captured.input_shapes, captured.module, captured.python, captures.captured_count,
        row_number() OVER (in_lane ORDER BY node_keys.place) = row_number() OVER (in_lane ORDER BY captured.position)
            AS is_in_order
    FROM pairs
    JOIN captures ON captures.trace_id = pairs.capture_trace_id AND captures.capture = pairs.capture
    JOIN node_keys
      ON node_keys.trace_id = pairs.trace_id
     AND node_keys.graph = pairs.graph
     AND node_keys.has_names = pairs.has_names
     AND node_keys.is_in_one_lane
    JOIN captured_keys AS captured
      ON captured.trace_id = pairs.capture_trace_id
     AND captured.capture = pairs.capture
     AND captured.key = node_keys.key
     AND captured.nth = node_keys.nth
     AND captured.key_count = node_keys.key_count
    WINDOW in_lane AS (PARTITION BY pairs.trace_id, pairs.graph, pairs.capture_trace_id, pairs.capture, node_keys.lane)
),
sizes AS (
    SELECT trace_id, graph, count(*) AS op_count
    FROM nodes
    GROUP BY trace_id, graph
),
in_order AS (
    SELECT matches.* EXCLUDE (is_in_order), sizes.op_count, count(*) OVER in_pair AS matched_count
    FROM matches
    JOIN sizes USING (trace_id, graph)
    WHERE matches.is_in_order
    WINDOW in_pair AS (
        PARTITION BY matches.trace_id, matches.graph, matches.capture_trace_id, matches.capture
    )
),
fitting AS (
    SELECT
        * REPLACE (
            -- Another size of a batch runs some of the same kernels on other shapes.
            CASE WHEN matched_count IN (op_count, captured_count) THEN input_shapes END AS input_shapes
        )
    FROM in_order
    WHERE if(has_names, 2 * matched_count >= greatest(op_count, captured_count), matched_count = op_count)
    QUALIFY rank() OVER (PARTITION BY trace_id, graph ORDER BY matched_count DESC, captured_count) = 1
),
fits AS MATERIALIZED (
    SELECT
        trace_id, graph,
        list(DISTINCT (capture_trace_id, capture) ORDER BY (capture_trace_id, capture)) AS captures,
        any_value(matched_count = op_count AND op_count = captured_count) AS is_whole
    FROM fitting
    GROUP BY trace_id, graph
),
-- Each graph was captured once.
captured_elsewhere AS (
    SELECT trace_id, captures
    FROM fits
    WHERE is_whole
    GROUP BY trace_id, captures
    HAVING count(*) > len(captures)
),
unambiguous AS (
    SELECT fitting.*, len(fits.captures) AS capture_count
    FROM fitting
    JOIN fits USING (trace_id, graph)
    ANTI JOIN captured_elsewhere AS elsewhere ON elsewhere.trace_id = fits.trace_id AND elsewhere.captures = fits.captures
),
-- Where fitting captures differ in a column, or some have nothing there, it is NULL.
agreed AS (
    SELECT
        trace_id, graph, position,
        if(count(kernel) = count(*), 'name', 'order') AS matched_by,
        arg_min((capture_trace_id, captured_id), (capture_trace_id, capture)) AS first_capture,
        if(count(DISTINCT capture_trace_id) = 1, any_value(capture_trace), NULL) AS capture_trace,
        if(count(operator) = any_value(capture_count) AND count(DISTINCT operator) = 1, any_value(operator), NULL) AS operator,
        if(count(input_shapes) = any_value(capture_count) AND count(DISTINCT input_shapes) = 1, any_value(input_shapes), NULL) AS input_shapes,
        if(count(module) = any_value(capture_count) AND count(DISTINCT module) = 1, any_value(module), NULL) AS module,
        if(count(python) = any_value(capture_count) AND count(DISTINCT python) = 1, any_value(python), NULL) AS python
    FROM unambiguous
    GROUP BY trace_id, graph, position
)
SELECT
    nodes.trace, nodes.rank, nodes.trace_id, nodes.graph, nodes.position, nodes.kind, nodes.name,
    sums.replay_count, sums.sum_ns,
    agreed.trace_id IS NOT NULL AS is_matched,
    agreed.matched_by,
    coalesce(len(fits.captures), 0) AS capture_count,
    agreed.capture_trace, nodes.op_id,
    agreed.first_capture[1] AS owner_id,
    agreed.first_capture[2] AS captured_id,
    agreed.operator, agreed.input_shapes, agreed.module, agreed.python
FROM nodes
JOIN sums USING (trace_id, graph, position)
LEFT JOIN agreed USING (trace_id, graph, position)
LEFT JOIN fits ON fits.trace_id = nodes.trace_id AND fits.graph = nodes.graph
ORDER BY nodes.trace_id, nodes.graph, nodes.position
