-- One row per call of an operator with a model that does its work itself, inside no other of these calls.
--
-- Where operators with models call each other, only the outermost counts, as both describe the same work. But an operator
-- that calls itself once with the same shapes only prepares this call: autocast writes an operator with the types that it
-- gets, the casts inside, and the operator again with the types that run. The inner call counts, and the casts for
-- themselves; but not where it has a tensor in the place of a number that the outer call was given. Operators that a
-- compiler runs on tensors without data (inside a range of torch.compile's compilation, without GPU work inside it) are no
-- calls. Calls that a capture shows in a replayed graph (captured_calls) count in each replay that holds all of their work.
--
-- columns: trace_id
--   slice_id   BIGINT   the call (host_slices.slice_id, or captured_calls.call_id)
--   thread_id  INTEGER  its thread; NULL: in a replayed graph
--   start_ns   BIGINT   start; in a replayed graph that of the graph's launch
--   end_ns     BIGINT   end; in a replayed graph the start
--   operator   VARCHAR  operator, without the name of its overload
--   family     VARCHAR  as in operator_models
WITH candidates AS MATERIALIZED (
    SELECT
        slices.trace_id, slices.slice_id, slices.thread_id, NULL::BIGINT AS launch_id,
        slices.trace_id AS owner_id, slices.slice_id AS recorded_id, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        slices.depth, slices.op_id AS around_id, slices.input_shapes, models.operator, models.family
    FROM canonical.host_slices AS slices
    JOIN operator_models AS models ON models.operator = operator_base(slices.name)
    WHERE slices.category = 'cpu_op'
    UNION ALL
    -- Their times are those of the capture.
    SELECT
        calls.trace_id, calls.call_id, NULL, calls.launch_id, calls.owner_id, calls.slice_id, calls.start_ns,
        calls.start_ns + calls.dur_ns,
        calls.slice_id, calls.parent_id, calls.input_shapes, models.operator, models.family
    FROM attribution.captured_calls AS calls
    JOIN operator_models AS models ON models.operator = operator_base(calls.name)
    WHERE calls.is_whole
),
nested AS MATERIALIZED (
    SELECT outside.trace_id, outside.slice_id, inside.slice_id AS inner_id
    FROM candidates AS inside
    JOIN candidates AS outside
      ON outside.trace_id = inside.trace_id
     AND outside.slice_id = inside.around_id
     AND outside.operator = inside.operator
     AND outside.input_shapes IS NOT DISTINCT FROM inside.input_shapes
    -- An operator that launches the graph is no call of what the graph does.
    WHERE (outside.launch_id IS NULL) = (inside.launch_id IS NULL)
),
asked AS MATERIALIZED (
    SELECT trace_id, slice_id, owner_id, recorded_id
    FROM candidates
    SEMI JOIN (SELECT trace_id, unnest([slice_id, inner_id]) AS slice_id FROM nested) AS calls USING (trace_id, slice_id)
),
with_numbers AS (
    SELECT asked.trace_id, asked.slice_id
    FROM asked
    JOIN (
        SELECT trace_id AS owner_id, event_id AS recorded_id, args
        FROM canonical.event_args
        WHERE event_id IN (SELECT recorded_id FROM asked)
        UNION ALL
        SELECT capture_id, event_id, args
        FROM canonical.capture_args
        WHERE event_id IN (SELECT recorded_id FROM asked)
    ) AS of_all USING (owner_id, recorded_id)
    WHERE contains(of_all.args ->> '$."Input type"', '"Scalar"')
),
preparing AS (
    SELECT nested.trace_id, nested.slice_id
    FROM nested
    LEFT JOIN with_numbers AS outer_numbers
           ON outer_numbers.trace_id = nested.trace_id AND outer_numbers.slice_id = nested.slice_id
    LEFT JOIN with_numbers AS inner_numbers
           ON inner_numbers.trace_id = nested.trace_id AND inner_numbers.slice_id = nested.inner_id
    GROUP BY nested.trace_id, nested.slice_id
    HAVING count(*) = 1 AND (count(outer_numbers.slice_id) = 0 OR count(inner_numbers.slice_id) > 0)
),
placed AS (
    SELECT candidates.*, traced.slice_id IS NOT NULL AS is_traced
    FROM candidates
    ANTI JOIN preparing ON preparing.trace_id = candidates.trace_id AND preparing.slice_id = candidates.slice_id
    LEFT JOIN traced_calls AS traced ON traced.trace_id = candidates.trace_id AND traced.slice_id = candidates.slice_id
),
outermost AS (
    SELECT *
    FROM placed
    WHERE NOT is_traced
    WINDOW before AS (
        PARTITION BY trace_id, thread_id, launch_id, owner_id
        ORDER BY start_ns, end_ns DESC, depth, slice_id
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
    QUALIFY NOT coalesce(max(end_ns) OVER before >= end_ns AND max(end_ns) OVER before > start_ns, FALSE)
)
SELECT
    calls.trace_id, calls.slice_id, calls.thread_id,
    coalesce(launches.start_ns, calls.start_ns) AS start_ns,
    coalesce(launches.start_ns, calls.end_ns) AS end_ns,
    calls.operator, calls.family
FROM outermost AS calls
LEFT JOIN launching_slices AS launches
       ON launches.trace_id = calls.trace_id AND launches.slice_id = calls.launch_id
