-- One row per modelled call of an operator: how many operations it takes, how many bytes it has to move, and how long the
-- device worked for it.
--
-- Operations and bytes are modelled: exact functions of the recorded arguments (shapes, types, options), never of the
-- kernels. An addition or a multiplication is one operation. The least bytes count each input once and the output once.
-- Of nested operators with a model one counts (modelled_calls). A call owns the GPU work that it launched on its thread,
-- or in a replay of a graph that it was captured into. Where arguments are missing, numbers are NULL and `reason` says
-- why: a total says nothing without its coverage (cost_coverage).
--
-- Recomputed: a forward operator that runs inside the backward pass, below the wrapper that a forward pass calls
-- (aten::linear, aten::conv1d to aten::conv3d, aten::scaled_dot_product_attention). TorchScript writes its backward passes
-- with forward operators: those are not recomputed.
--
-- columns: trace, rank
--   device          INTEGER  device of its GPU work; NULL: it launched none
--   trace_id        INTEGER  traces.trace_id
--   slice_id        BIGINT   the call (modelled_calls.slice_id)
--   step            BIGINT   step of the device in which its first GPU operation starts; NULL: outside steps
--   operator        VARCHAR  operator, without the name of its overload
--   family          VARCHAR  as in operator_models
--   input_shapes    VARCHAR  shapes of its inputs as written, a JSON list
--   input_types     VARCHAR  types of its inputs as written, a JSON list
--   element_type    VARCHAR  type of the first operand: it decides the peak
--   basis           VARCHAR  modelled; NULL: unknown
--   reason          VARCHAR  why numbers are missing: no arguments, no types, unknown arguments (also of sparse tensors,
--                            which have no strides), mask not recorded (or it has a window), lengths not recorded (of an
--                            attention's sequences), host memory; NULL: none is missing
--   flops           HUGEINT  operations that it executes
--   flops_unmasked  HUGEINT  the same as if no attention mask hid anything, as FlopCounterMode counts
--   model_flops     HUGEINT  operations that the model asks for: without what is recomputed
--   flops_least     HUGEINT  the fewest operations that it can execute: fewer than flops_most where an attention's mask was not
--                            recorded, or has a window; NULL: unknown
--   flops_most      HUGEINT  the most
--   model_flops_least HUGEINT the same of what the model asks for
--   model_flops_most HUGEINT the most of it
--   size_bytes      HUGEINT  least bytes, by the shapes
--   stored_bytes    HUGEINT  the same, counting each expanded dimension (stride 0) of an input once
--   is_recomputed   BOOLEAN  a forward operator of the backward pass
--   op_count        BIGINT   GPU operations
--   op_sum_ns       BIGINT   sum of their durations
--   kernel_sum_ns   BIGINT   sum of the kernels' durations, without copies and memsets
--   dur_ns          BIGINT   time in which at least one of them runs; NULL: it launched none
--   host_dur_ns     BIGINT   duration of the call on the host; 0 in a replayed graph
--   start_ns        BIGINT   start of the first of them; NULL: it launched none
--   uses_tf32       BOOLEAN  a kernel of it names TF32
WITH work AS (
    SELECT
        owned.trace_id, owned.slice_id, owned.device, ops.is_kernel, ops.crosses_link, ops.uses_tf32,
        ops.start_ns, ops.dur_ns,
        uncovered_ns(
            ops.start_ns,
            ops.start_ns + ops.dur_ns,
            max(ops.start_ns + ops.dur_ns) OVER (
                PARTITION BY owned.trace_id, owned.slice_id
                ORDER BY ops.start_ns, ops.dur_ns, ops.op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS added_ns
    FROM modelled_ops AS owned
    -- Asked before the join: DuckDB then looks once at each name that the file holds, not at that of each operation.
    JOIN (
        SELECT
            trace_id, op_id, start_ns, dur_ns,
            kind = 'kernel' AS is_kernel,
            copy_kind IN ('HtoD', 'DtoH') AS crosses_link,
            -- Expressions are matched with the names of few kernels: with all, that takes a fifth of this metric's time.
            contains(name, 'tf32') OR contains(name, 's1688')
            OR (starts_with(name, 'nvjet') AND regexp_matches(name, '^nvjet(_sm[0-9]+)?_s[a-z]s_'))
            OR (starts_with(name, 'Cijk') AND regexp_matches(name, '^Cijk_A[a-z]+_B[a-z]+_S_?MX')) AS uses_tf32
        FROM canonical.gpu_ops
    ) AS ops USING (trace_id, op_id)
),
device_work AS (
    SELECT
        trace_id, slice_id,
        arg_min(device, start_ns) AS device,
        count(*) AS op_count,
        CAST(sum(dur_ns) AS BIGINT) AS op_sum_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE is_kernel), 0) AS BIGINT) AS kernel_sum_ns,
        CAST(sum(added_ns) AS BIGINT) AS dur_ns,
        min(start_ns) AS start_ns,
        bool_or(crosses_link) AS crosses_link,
        bool_or(uses_tf32) AS uses_tf32
    FROM work
    GROUP BY trace_id, slice_id
),
-- Joined here, where rows are narrow: this join sorts them.
stepped_work AS (
    SELECT
        device_work.*,
        CASE WHEN device_work.start_ns < steps.end_ns THEN steps.step END AS step
    FROM device_work
    ASOF LEFT JOIN attribution.steps AS steps
        ON steps.trace_id = device_work.trace_id
       AND steps.device = device_work.device
       AND steps.start_ns <= device_work.start_ns
),
-- The gradient of an output has the shape of the output, which shows the options of a convolution where old traces lack
-- them. Calls that need no gradient have the number of the next one that does, so the last call of a number has it.
convolution_gradients AS (
    SELECT
        trace_id,
        arg_max(slice_id, start_ns) FILTER (WHERE operator_base(name) = 'aten::convolution') AS slice_id,
        any_value(input_shapes ->> '$[0]') FILTER (WHERE forward_thread IS NOT NULL AND contains(name, 'ConvolutionBackward')) AS shape
    FROM canonical.host_slices
    WHERE category = 'cpu_op' AND sequence IS NOT NULL AND contains(name, 'onvolution')
    GROUP BY trace_id, sequence
),
gradient_parts AS (
    SELECT
        trace_id, op_id AS slice_id,
        bool_or(ends_with(name, '_backward_input')) AS has_input_gradient,
        bool_or(ends_with(name, '_backward_weight')) AS has_weight_gradient
    FROM canonical.host_slices
    WHERE category = 'cpu_op' AND starts_with(name, 'aten::cudnn_convolution_backward_')
    GROUP BY trace_id, op_id
),
described_calls AS (
    SELECT
        calls.*,
        given.input_shapes, given.input_types, given.concrete_inputs, given.input_strides,
        gradients.shape AS out_shape,
        coalesce(parts.has_input_gradient, FALSE) AS has_input_gradient,
        coalesce(parts.has_weight_gradient, FALSE) AS has_weight_gradient
    FROM modelled_calls AS calls
    JOIN operator_arguments AS given USING (trace_id, slice_id)
    LEFT JOIN convolution_gradients AS gradients
           ON gradients.trace_id = calls.trace_id AND gradients.slice_id = calls.slice_id
    LEFT JOIN gradient_parts AS parts ON parts.trace_id = calls.trace_id AND parts.slice_id = calls.slice_id
),
-- Many calls share few signatures, so each signature is held and read once.
distinct_calls AS (
    SELECT
        operator, family, input_shapes, input_types, concrete_inputs, input_strides, out_shape,
        has_input_gradient, has_weight_gradient,
        list({
            'trace_id': trace_id, 'slice_id': slice_id, 'thread_id': thread_id, 'start_ns': start_ns, 'end_ns': end_ns
        }) AS calls
    FROM described_calls
    GROUP BY ALL
),
signatures AS MATERIALIZED (
    SELECT *, TRY_CAST(out_shape AS BIGINT[]) AS out_dims
    FROM read_signatures('distinct_calls')
),
calls AS MATERIALIZED (
    SELECT unnest(calls, recursive := TRUE), signature_id
    FROM signatures
),
costs AS MATERIALIZED (
    SELECT * FROM matrix_costs('signatures')
    UNION ALL
    SELECT * FROM convolution_costs('signatures')
    UNION ALL BY NAME
    SELECT * FROM attention_costs('signatures')
    UNION ALL BY NAME
    SELECT *, 0::HUGEINT AS flops, 0::HUGEINT AS flops_unmasked, 0::HUGEINT AS once_flops
    FROM (
        FROM vector_costs('signatures')
        UNION ALL
        FROM tensor_costs('signatures')
        UNION ALL
        FROM reduce_costs('signatures')
        UNION ALL
        FROM pool_costs('signatures')
        UNION ALL
        FROM row_costs('signatures')
    )
),
-- Of nested wrappers and backward nodes, the outermost.
enclosing AS (
    SELECT
        trace_id, thread_id, start_ns,
        start_ns + dur_ns AS end_ns,
        CASE
            WHEN starts_with(name, 'autograd::engine::evaluate_function') THEN 'backward'
            WHEN name = '<backward op>' THEN 'script'
            ELSE 'wrapper'
        END AS role,
        contains(name, 'DifferentiableGraphBackward') AS is_script
    FROM canonical.host_slices
    WHERE category IN ('cpu_op', 'annotation', 'other')
      AND (
          operator_base(name) IN (
              'aten::linear',
              'aten::conv1d',
              'aten::conv2d',
              'aten::conv3d',
              'aten::scaled_dot_product_attention',
              '<backward op>'
          )
          OR starts_with(name, 'autograd::engine::evaluate_function')
      )
),
outer_enclosing AS MATERIALIZED (
    SELECT *
    FROM enclosing
    QUALIFY coalesce(
        end_ns > max(end_ns) OVER (
            PARTITION BY trace_id, thread_id, role
            ORDER BY start_ns, end_ns DESC
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        TRUE
    )
),
recomputed_calls AS (
    SELECT calls.trace_id, calls.slice_id
    FROM calls
    ASOF JOIN (FROM outer_enclosing WHERE role = 'wrapper') AS wrappers
        ON wrappers.trace_id = calls.trace_id AND wrappers.thread_id = calls.thread_id AND wrappers.start_ns <= calls.start_ns
    ASOF JOIN (FROM outer_enclosing WHERE role = 'backward') AS nodes
        ON nodes.trace_id = calls.trace_id AND nodes.thread_id = calls.thread_id AND nodes.start_ns <= wrappers.start_ns
    ASOF LEFT JOIN (FROM outer_enclosing WHERE role = 'script') AS scripts
        ON scripts.trace_id = calls.trace_id AND scripts.thread_id = calls.thread_id AND scripts.start_ns <= calls.start_ns
    WHERE calls.end_ns <= wrappers.end_ns
      AND wrappers.end_ns <= nodes.end_ns
      AND NOT nodes.is_script
      AND coalesce(scripts.end_ns < calls.end_ns, TRUE)
)
SELECT
    traces.trace, traces.rank, work.device, calls.trace_id, calls.slice_id, work.step, signatures.operator,
    signatures.family, signatures.input_shapes, signatures.input_types, signatures.element_type,
    CASE WHEN costs.flops_unmasked IS NOT NULL THEN 'modelled' END AS basis,
    CASE
        WHEN signatures.input_shapes IS NULL THEN 'no arguments'
        WHEN signatures.operator = 'aten::copy_' AND work.crosses_link THEN 'host memory'
        WHEN signatures.family = 'paged attention' THEN 'lengths not recorded'
        WHEN signatures.family = 'attention' AND costs.flops_unmasked IS NULL AND costs.size_bytes IS NOT NULL
        THEN 'lengths not recorded'
        WHEN costs.signature_id IS NULL THEN 'unknown arguments'
        WHEN costs.flops IS NULL AND costs.flops_unmasked IS NOT NULL THEN 'mask not recorded'
        WHEN costs.flops IS NULL THEN 'unknown arguments'
        WHEN costs.size_bytes IS NULL AND costs.flops > 0 THEN 'no types'
        WHEN costs.size_bytes IS NULL THEN 'unknown arguments'
    END AS reason,
    costs.flops, costs.flops_unmasked,
    CASE WHEN recomputed_calls.slice_id IS NULL THEN costs.once_flops WHEN costs.once_flops IS NOT NULL THEN 0 END AS model_flops,
    coalesce(costs.flops_least, costs.flops) AS flops_least,
    coalesce(costs.flops, costs.flops_unmasked) AS flops_most,
    CASE
        WHEN recomputed_calls.slice_id IS NULL THEN coalesce(costs.once_flops_least, costs.once_flops)
        WHEN flops_least IS NOT NULL THEN 0
    END AS model_flops_least,
    CASE
        WHEN recomputed_calls.slice_id IS NULL THEN coalesce(costs.once_flops_most, costs.once_flops)
        WHEN flops_most IS NOT NULL THEN 0
    END AS model_flops_most,
    CASE WHEN signatures.operator <> 'aten::copy_' OR work.crosses_link IS NOT TRUE THEN costs.size_bytes END AS size_bytes,
    CASE WHEN signatures.operator <> 'aten::copy_' OR work.crosses_link IS NOT TRUE THEN costs.stored_bytes END AS stored_bytes,
    recomputed_calls.slice_id IS NOT NULL AS is_recomputed,
    coalesce(work.op_count, 0) AS op_count,
    coalesce(work.op_sum_ns, 0) AS op_sum_ns,
    coalesce(work.kernel_sum_ns, 0) AS kernel_sum_ns,
    work.dur_ns,
    calls.end_ns - calls.start_ns AS host_dur_ns,
    work.start_ns,
    coalesce(work.uses_tf32, FALSE) AS uses_tf32
FROM calls
JOIN canonical.traces AS traces USING (trace_id)
JOIN signatures USING (signature_id)
LEFT JOIN costs USING (signature_id)
LEFT JOIN stepped_work AS work ON work.trace_id = calls.trace_id AND work.slice_id = calls.slice_id
LEFT JOIN recomputed_calls ON recomputed_calls.trace_id = calls.trace_id AND recomputed_calls.slice_id = calls.slice_id
