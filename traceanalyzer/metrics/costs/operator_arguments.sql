-- One row per call of an operator with a model: the arguments that the profiler recorded.
--
-- columns:
--   trace_id        INTEGER  traces.trace_id
--   slice_id        BIGINT   the call (host_slices.slice_id)
--   operator        VARCHAR  operator
--   family          VARCHAR  as in operator_models
--   sequence        BIGINT   number that its node of the backward pass has, too; NULL: none
--   input_shapes    VARCHAR  shapes of its inputs as written, a JSON list; NULL: not recorded
--   input_types     VARCHAR  types of its inputs as written, a JSON list; NULL: not recorded
--   concrete_inputs VARCHAR  values of its inputs that are no tensors, a JSON list of texts; NULL: not recorded
--   input_strides   VARCHAR  strides of its inputs as written, a JSON list; NULL: not recorded
SELECT
    slices.trace_id,
    slices.slice_id,
    slices.name AS operator,
    models.family,
    slices.sequence,
    slices.input_shapes,
    args.args ->> '$."Input type"' AS input_types,
    args.args ->> '$."Concrete Inputs"' AS concrete_inputs,
    args.args ->> '$."Input Strides"' AS input_strides
FROM canonical.host_slices AS slices
JOIN operator_models AS models ON models.operator = slices.name
LEFT JOIN canonical.event_args AS args
       ON args.trace_id = slices.trace_id AND args.event_id = slices.slice_id
WHERE slices.category = 'cpu_op'
