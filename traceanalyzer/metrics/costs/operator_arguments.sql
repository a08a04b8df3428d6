-- One row per call of an operator with a model: the arguments that the profiler recorded.
--
-- columns:
--   trace_id        INTEGER  traces.trace_id
--   slice_id        BIGINT   the call (host_slices.slice_id)
--   operator        VARCHAR  operator, without the name of its overload
--   family          VARCHAR  as in operator_models
--   sequence        BIGINT   number that its node of the backward pass has, too; NULL: none
--   input_shapes    VARCHAR  shapes of its inputs as written, a JSON list; NULL: not recorded
--   input_types     VARCHAR  types of its inputs as written, a JSON list; NULL: not recorded
--   concrete_inputs VARCHAR  values of its inputs that are no tensors, a JSON list of texts; NULL: not recorded
--   input_strides   VARCHAR  strides of its inputs as written, a JSON list; NULL: not recorded
WITH calls AS MATERIALIZED (
    SELECT
        slices.trace_id,
        slices.slice_id,
        models.operator,
        models.family,
        slices.sequence,
        slices.input_shapes
    FROM canonical.host_slices AS slices
    JOIN operator_models AS models ON models.operator = operator_base(slices.name)
    WHERE slices.category = 'cpu_op'
)
SELECT
    calls.trace_id,
    calls.slice_id,
    calls.operator,
    calls.family,
    calls.sequence,
    calls.input_shapes,
    args.texts[1] AS input_types,
    args.texts[2] AS concrete_inputs,
    args.texts[3] AS input_strides
FROM calls
-- Filtered by one number first: DuckDB then takes no argument of any other slice from the file.
LEFT JOIN (
    SELECT
        trace_id,
        event_id,
        args ->> ['$."Input type"', '$."Concrete Inputs"', '$."Input Strides"'] AS texts
    FROM canonical.event_args
    WHERE event_id IN (SELECT slice_id FROM calls)
) AS args
       ON args.trace_id = calls.trace_id AND args.event_id = calls.slice_id
