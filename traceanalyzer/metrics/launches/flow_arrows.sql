-- One row per arrow between two points of a flow: the slice or GPU operation where it starts and the one where it ends.
--
-- Points of one flow share id, category and name within a trace and follow each other in time. A start point begins a
-- new flow, so an id that is used again makes no arrow between its uses. A point binds to the innermost slice of its
-- thread that is open at its time, or to the operation that runs on its stream. An end point that is not marked as
-- binding to the enclosing slice binds to the next slice of its thread. These are the rules of the trace-event format
-- as Perfetto reads it, except that no point binds to a slice that has ended. NULL: nothing is there.
--
-- columns: trace, rank
--   flow_id       VARCHAR  id of the flow
--   category      VARCHAR  as written: ac2g, fwdbwd …
--   flow          VARCHAR  name of the flow
--   from_ns       BIGINT   time of its start
--   from_slice_id BIGINT   host slice at its start
--   from_op_id    BIGINT   GPU operation at its start
--   from_name     VARCHAR  name of that slice or operation
--   to_ns         BIGINT   time of its end
--   to_slice_id   BIGINT   host slice at its end
--   to_op_id      BIGINT   GPU operation at its end
--   to_name       VARCHAR  name of that slice or operation
WITH RECURSIVE pairs AS (
    SELECT trace_id, event_id, lead(event_id) OVER later AS to_event_id, lead(phase) OVER later AS to_phase
    FROM flows
    WINDOW later AS (PARTITION BY trace_id, flow_id, category, name ORDER BY start_ns, phase <> 's', event_id)
),
arrows AS MATERIALIZED (
    SELECT trace_id, event_id, to_event_id
    FROM pairs
    WHERE to_phase <> 's'
),
points AS (
    SELECT flows.*, TRY_CAST(threads.pid AS INTEGER) AS device, TRY_CAST(threads.tid AS BIGINT) AS stream
    FROM flows
    SEMI JOIN (
        SELECT trace_id, event_id FROM arrows
        UNION ALL
        SELECT trace_id, to_event_id FROM arrows
    ) AS ends USING (trace_id, event_id)
    LEFT JOIN threads USING (trace_id, thread_id)
),
-- Most points are at the start of a slice, so their time alone finds the slice.
starting AS (
    SELECT
        trace_id, event_id,
        arg_max(slice_id, (depth, slice_id)) AS slice_id,
        arg_max(host_slices.name, (depth, slice_id)) AS name
    FROM points
    JOIN host_slices USING (trace_id, thread_id, start_ns)
    GROUP BY trace_id, event_id
),
elsewhere AS (
    FROM points
    ANTI JOIN starting USING (trace_id, event_id)
),
slices AS (
    FROM host_slices
    SEMI JOIN elsewhere USING (trace_id, thread_id)
),
openings AS (
    SELECT trace_id, thread_id, start_ns, arg_max(slice_id, (depth, slice_id)) AS slice_id
    FROM slices
    GROUP BY trace_id, thread_id, start_ns
),
begun AS (
    SELECT
        points.trace_id, points.event_id, points.start_ns AS at_ns, openings.slice_id, slices.parent_id,
        slices.name,
        slices.start_ns + slices.dur_ns > points.start_ns AS holds
    FROM elsewhere AS points
    ASOF JOIN openings
        ON openings.trace_id = points.trace_id
        AND openings.thread_id = points.thread_id
        AND openings.start_ns <= points.start_ns
    JOIN slices ON slices.trace_id = openings.trace_id AND slices.slice_id = openings.slice_id
    WHERE points.binds_enclosing
),
climbed AS (
    SELECT trace_id, event_id, at_ns, slice_id, parent_id, name, holds
    FROM begun
    WHERE NOT holds
    UNION ALL
    -- A slice that ended before the point cannot contain it; a slice around that slice may.
    SELECT
        climbed.trace_id, climbed.event_id, climbed.at_ns, slices.slice_id, slices.parent_id, slices.name,
        slices.start_ns + slices.dur_ns > climbed.at_ns
    FROM climbed
    JOIN slices ON slices.trace_id = climbed.trace_id AND slices.slice_id = climbed.parent_id
    WHERE NOT climbed.holds
),
enclosing AS (
    SELECT trace_id, event_id, slice_id, name FROM begun WHERE holds
    UNION ALL
    SELECT trace_id, event_id, slice_id, name FROM climbed WHERE holds
),
following AS (
    SELECT points.trace_id, points.event_id, openings.slice_id, slices.name
    FROM elsewhere AS points
    ASOF JOIN openings
        ON openings.trace_id = points.trace_id
        AND openings.thread_id = points.thread_id
        AND openings.start_ns >= points.start_ns
    JOIN slices ON slices.trace_id = openings.trace_id AND slices.slice_id = openings.slice_id
    WHERE NOT points.binds_enclosing
),
slices_bound AS (
    FROM starting
    UNION ALL
    FROM enclosing
    UNION ALL
    FROM following
),
starting_ops AS (
    SELECT trace_id, event_id, max(op_id) AS op_id
    FROM points
    JOIN gpu_ops USING (trace_id, device, stream, start_ns)
    GROUP BY trace_id, event_id
),
running_ops AS (
    SELECT points.trace_id, points.event_id, gpu_ops.op_id
    FROM (FROM points SEMI JOIN gpu_ops USING (trace_id, device, stream)) AS points
    ANTI JOIN starting_ops USING (trace_id, event_id)
    ASOF JOIN gpu_ops
        ON gpu_ops.trace_id = points.trace_id
        AND gpu_ops.device = points.device
        AND gpu_ops.stream = points.stream
        AND gpu_ops.start_ns <= points.start_ns
    WHERE points.start_ns < gpu_ops.start_ns + gpu_ops.dur_ns
),
ops_bound AS (
    SELECT trace_id, event_id, op_id, name
    FROM (FROM starting_ops UNION ALL FROM running_ops) AS ops
    JOIN gpu_ops USING (trace_id, op_id)
),
bound AS (
    SELECT
        points.*,
        slices_bound.slice_id, ops_bound.op_id,
        coalesce(slices_bound.name, ops_bound.name) AS bound_name
    FROM points
    LEFT JOIN slices_bound USING (trace_id, event_id)
    LEFT JOIN ops_bound USING (trace_id, event_id)
)
SELECT
    trace, rank, leaving.flow_id, leaving.category, leaving.name AS flow, leaving.start_ns AS from_ns,
    leaving.slice_id AS from_slice_id, leaving.op_id AS from_op_id, leaving.bound_name AS from_name,
    reaching.start_ns AS to_ns, reaching.slice_id AS to_slice_id, reaching.op_id AS to_op_id,
    reaching.bound_name AS to_name
FROM arrows
JOIN canonical.traces USING (trace_id)
JOIN bound AS leaving ON leaving.trace_id = arrows.trace_id AND leaving.event_id = arrows.event_id
JOIN bound AS reaching ON reaching.trace_id = arrows.trace_id AND reaching.event_id = to_event_id
ORDER BY arrows.trace_id, leaving.start_ns, leaving.flow_id
