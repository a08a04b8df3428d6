-- One row per kernel of 20 us or more of an operator that only moves data (elementwise, copy, reduction): how fast it moved
-- what it has to.
--
-- The least bytes are those of the operator's recorded arguments (operator_costs), and count an expanded dimension once.
-- Where one call launches several kernels, each moved its part of them by time. Small tensors lie in a cache, so that their
-- rate may be above that of memory.
--
-- empty without: kernel_class WHERE dur_ns >= 20000 AND operator IS NOT NULL
-- columns: trace, rank, device, trace_id
--   op_id           BIGINT   gpu_ops.op_id
--   operator        VARCHAR  operator that launched it
--   family          VARCHAR  as in operator_models
--   input_shapes    VARCHAR  shapes of the operator's inputs as written, a JSON list
--   input_strides   VARCHAR  strides of the operator's inputs as written, a JSON list; NULL: not recorded
--   size_bytes      DOUBLE   least bytes
--   gb_per_s        DOUBLE   least bytes / duration, in 10^9 per second
WITH kernels AS (
    SELECT
        kernels.*,
        models.family,
        sum(kernels.dur_ns) OVER (PARTITION BY kernels.trace_id, kernels.operator_id) AS call_ns
    FROM kernel_class AS kernels
    JOIN operator_models AS models ON models.operator = kernels.operator
    WHERE models.family IN ('elementwise', 'copy', 'reduce') AND kernels.dur_ns >= 20000
),
calls AS MATERIALIZED (
    SELECT given.*
    FROM operator_arguments AS given
    SEMI JOIN kernels ON kernels.trace_id = given.trace_id AND kernels.operator_id = given.slice_id
    WHERE given.input_shapes IS NOT NULL
),
distinct_calls AS (
    SELECT DISTINCT operator, family, input_shapes, input_types, concrete_inputs, input_strides FROM calls
),
signatures AS MATERIALIZED (
    SELECT * FROM read_signatures('distinct_calls')
),
costs AS MATERIALIZED (
    SELECT * FROM vector_costs('signatures')
    UNION ALL
    SELECT * FROM tensor_costs('signatures')
    UNION ALL
    SELECT * FROM reduce_costs('signatures')
)
SELECT
    kernels.trace, kernels.rank, kernels.device, kernels.trace_id, kernels.op_id, kernels.operator,
    kernels.family, calls.input_shapes, calls.input_strides,
    costs.stored_bytes * kernels.dur_ns / kernels.call_ns AS size_bytes,
    costs.stored_bytes / kernels.call_ns AS gb_per_s
FROM kernels
JOIN calls ON calls.trace_id = kernels.trace_id AND calls.slice_id = kernels.operator_id
JOIN signatures
  ON signatures.operator = calls.operator
 AND signatures.input_shapes = calls.input_shapes
 AND signatures.input_types IS NOT DISTINCT FROM calls.input_types
 AND signatures.concrete_inputs IS NOT DISTINCT FROM calls.concrete_inputs
 AND signatures.input_strides IS NOT DISTINCT FROM calls.input_strides
JOIN costs USING (signature_id)
WHERE costs.stored_bytes IS NOT NULL
ORDER BY kernels.trace_id, kernels.device, kernels.op_id
