-- One row per call of an operator with a model that does its work itself, inside no other of these calls.
--
-- Where operators with models call each other, only the outermost counts, as both describe the same work. But an operator
-- that calls itself once with the same shapes only prepares this call: autocast writes an operator with the types that it
-- gets, the casts inside, and the operator again with the types that run. The inner call counts, and the casts for
-- themselves. Operators that a compiler runs on tensors without data (inside a range of torch.compile's compilation,
-- without GPU work inside it) are no calls.
--
-- columns:
--   trace_id   INTEGER  traces.trace_id
--   slice_id   BIGINT   the call (host_slices.slice_id)
--   thread_id  INTEGER  its thread
--   start_ns   BIGINT   start
--   end_ns     BIGINT   end
--   operator   VARCHAR  operator, without the name of its overload
--   family     VARCHAR  as in operator_models
WITH candidates AS MATERIALIZED (
    SELECT
        slices.trace_id,
        slices.slice_id,
        slices.thread_id,
        slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        slices.depth,
        slices.op_id,
        slices.input_shapes,
        models.operator,
        models.family
    FROM canonical.host_slices AS slices
    JOIN operator_models AS models ON models.operator = operator_base(slices.name)
    WHERE slices.category = 'cpu_op'
),
preparing AS (
    SELECT
        outside.trace_id,
        outside.slice_id
    FROM candidates AS inside
    JOIN candidates AS outside
      ON outside.trace_id = inside.trace_id
     AND outside.slice_id = inside.op_id
     AND outside.operator = inside.operator
     AND outside.input_shapes IS NOT DISTINCT FROM inside.input_shapes
    GROUP BY outside.trace_id, outside.slice_id
    HAVING count(*) = 1
),
placed AS (
    SELECT
        candidates.*,
        traced.slice_id IS NOT NULL AS is_traced
    FROM candidates
    ANTI JOIN preparing ON preparing.trace_id = candidates.trace_id AND preparing.slice_id = candidates.slice_id
    LEFT JOIN traced_calls AS traced
           ON traced.trace_id = candidates.trace_id AND traced.slice_id = candidates.slice_id
)
SELECT
    trace_id,
    slice_id,
    thread_id,
    start_ns,
    end_ns,
    operator,
    family
FROM placed
WHERE NOT is_traced
WINDOW before AS (
    PARTITION BY trace_id, thread_id
    ORDER BY start_ns, end_ns DESC, depth, slice_id
    ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
)
QUALIFY NOT coalesce(max(end_ns) OVER before >= end_ns AND max(end_ns) OVER before > start_ns, FALSE)
