-- One row per call of an operator with a model, also in replayed graphs: the arguments that the profiler recorded.
--
-- columns: trace_id
--   slice_id        BIGINT   the call (host_slices.slice_id, or captured_calls.call_id)
--   operator        VARCHAR  operator, without the name of its overload
--   family          VARCHAR  as in operator_models
--   input_shapes    VARCHAR  shapes of its inputs as written, a JSON list; NULL: not recorded
--   input_types     VARCHAR  types of its inputs as written, a JSON list; NULL: not recorded
--   concrete_inputs VARCHAR  values of its inputs that are no tensors, a JSON list of texts; NULL: not recorded
--   input_strides   VARCHAR  strides of its inputs as written, a JSON list; NULL: not recorded
WITH calls AS MATERIALIZED (
    SELECT
        slices.trace_id, slices.slice_id, models.operator, models.family, slices.input_shapes
    FROM canonical.host_slices AS slices
    JOIN operator_models AS models ON models.operator = operator_base(slices.name)
    WHERE slices.category = 'cpu_op'
),
captured AS MATERIALIZED (
    SELECT
        calls.trace_id, calls.call_id, calls.owner_id, calls.slice_id, models.operator, models.family,
        calls.input_shapes
    FROM attribution.captured_calls AS calls
    JOIN operator_models AS models ON models.operator = operator_base(calls.name)
    WHERE calls.is_whole
),
captured_args AS (
    SELECT
        owner_id, event_id,
        args ->> ['$."Input type"', '$."Concrete Inputs"', '$."Input Strides"'] AS texts
    FROM (
        SELECT trace_id AS owner_id, event_id, args
        FROM canonical.event_args
        WHERE event_id IN (SELECT slice_id FROM captured)
        UNION ALL
        SELECT capture_id, event_id, args
        FROM canonical.capture_args
        WHERE event_id IN (SELECT slice_id FROM captured)
    ) AS of_all
)
SELECT
    calls.trace_id, calls.slice_id, calls.operator, calls.family, calls.input_shapes,
    args.texts[1] AS input_types,
    args.texts[2] AS concrete_inputs,
    args.texts[3] AS input_strides
FROM calls
-- Filtered by one number first: DuckDB then takes no argument of any other slice from the file.
LEFT JOIN (
    SELECT
        trace_id, event_id,
        args ->> ['$."Input type"', '$."Concrete Inputs"', '$."Input Strides"'] AS texts
    FROM canonical.event_args
    WHERE event_id IN (SELECT slice_id FROM calls)
) AS args
       ON args.trace_id = calls.trace_id AND args.event_id = calls.slice_id
UNION ALL
SELECT
    captured.trace_id, captured.call_id, captured.operator, captured.family, captured.input_shapes,
    args.texts[1],
    args.texts[2],
    args.texts[3]
FROM captured
LEFT JOIN captured_args AS args ON args.owner_id = captured.owner_id AND args.event_id = captured.slice_id
