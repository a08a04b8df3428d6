-- Least bytes of operators whose time is memory's, from signatures as operator_costs reads them: each input once, at its
-- own size, and the output once. `stored_bytes` counts a dimension that was expanded (stride 0) once, for memory holds it
-- once. Their operations do not count: `flops` is 0.
CREATE OR REPLACE MACRO vector_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            -- What follows an operator's operands is what it was asked to write to, and counts as its output.
            CASE
                WHEN family = 'norm' THEN 99
                WHEN operator IN ('aten::where', 'aten::index_select') THEN 3
                WHEN family = 'reduce' OR operator IN ('aten::_softmax', 'aten::_log_softmax') THEN 1
                WHEN rtrim(operator, '_') IN (
                    'aten::neg', 'aten::exp', 'aten::log', 'aten::sqrt', 'aten::rsqrt', 'aten::tanh', 'aten::sigmoid',
                    'aten::silu', 'aten::gelu', 'aten::relu', 'aten::threshold', 'aten::hardtanh', 'aten::logical_not',
                    'aten::bitwise_not'
                ) THEN 1
                ELSE 2
            END AS operand_count
        FROM query_table(signatures)
        WHERE family IN ('elementwise', 'copy', 'softmax', 'norm', 'reduce', 'embedding')
          AND NOT list_contains(types, 'TensorList')
    ),
    read_inputs AS (
        SELECT
            *,
            [
                {
                    'shape': tensor_shape(dims, place),
                    'bytes': element_bytes(types[place + 1]),
                    'kind': CASE
                        WHEN contains(types[place + 1], 'complex') THEN 3
                        WHEN regexp_matches(types[place + 1], 'double|float|Half|Float') THEN 2
                        WHEN types[place + 1] = 'bool' THEN 0
                        ELSE 1
                    END,
                    'stored': [
                        if(coalesce(tensor_shape(strides, place)[axis], 1) = 0, 1, tensor_shape(dims, place)[axis])
                        FOR axis IN range(1, len(tensor_shape(dims, place)) + 1)
                    ]
                }
                FOR place IN range(least(len(types), operand_count))
                IF element_bytes(types[place + 1]) IS NOT NULL
            ] AS inputs
        FROM placed
    ),
    tensors AS (
        SELECT
            *,
            inputs[1].shape AS first_shape,
            inputs[1].bytes AS first_bytes,
            list_sum([element_count(input.shape) * input.bytes FOR input IN inputs]) AS input_size,
            list_sum([(element_count(input.shape) - element_count(input.stored)) * input.bytes FOR input IN inputs]) AS expanded_size,
            list_max([len(input.shape) FOR input IN inputs]) AS axis_count
        FROM read_inputs
        WHERE len(inputs) > 0
          AND NOT list_contains([input.shape IS NULL FOR input IN inputs], TRUE)
    ),
    -- What an operator of each family writes, as a number of elements and their size.
    outputs AS (
        SELECT
            *,
            CASE
                WHEN operator IN ('aten::_softmax', 'aten::_log_softmax')
                THEN element_count(first_shape) * if(concrete[3] = 'True', 4, first_bytes)
                WHEN family = 'softmax' THEN element_count(first_shape) * first_bytes
                WHEN family = 'norm' THEN element_count(first_shape) * first_bytes
                WHEN operator = 'aten::cumsum' THEN element_count(first_shape) * first_bytes
                WHEN family = 'reduce' AND concrete IS NOT NULL
                THEN first_bytes * CASE
                    WHEN starts_with(concrete[2], '[') AND concrete[2] <> '[]'
                    THEN element_count([
                        first_shape[axis] FOR axis IN range(1, len(first_shape) + 1)
                        IF NOT list_contains(
                            [
                                if(reduced < 0, reduced + len(first_shape), reduced) + 1
                                FOR reduced IN TRY_CAST(concrete[2] AS BIGINT[])
                            ],
                            axis
                        )
                    ])
                    ELSE 1
                END
                WHEN operator = 'aten::embedding'
                THEN element_count(inputs[2].shape) * first_shape[-1] * first_bytes
                WHEN operator = 'aten::embedding_dense_backward'
                THEN TRY_CAST(concrete[3] AS BIGINT) * first_shape[-1] * first_bytes
                WHEN operator = 'aten::index_select'
                THEN element_count(first_shape) * first_bytes * element_count(inputs[2].shape)
                    // nullif(first_shape[((TRY_CAST(concrete[2] AS BIGINT) + len(first_shape)) % len(first_shape)) + 1], 0)
                WHEN family = 'reduce' THEN NULL
                WHEN ends_with(operator, '_') THEN element_count(first_shape) * first_bytes
                ELSE element_count([
                    list_max([input.shape[-axis] FOR input IN inputs]) FOR axis IN range(1, axis_count + 1)
                ]) * CASE
                    WHEN operator IN (
                        'aten::eq', 'aten::ne', 'aten::lt', 'aten::le', 'aten::gt', 'aten::ge', 'aten::logical_not'
                    ) THEN 1
                    WHEN operator = 'aten::where' THEN result_bytes(inputs[2:], types[2:], FALSE)
                    ELSE result_bytes(inputs, types, operator IN (
                        'aten::div', 'aten::exp', 'aten::log', 'aten::sqrt', 'aten::rsqrt', 'aten::tanh', 'aten::sigmoid',
                        'aten::silu', 'aten::gelu'
                    ))
                END
            END AS output_size,
            CASE operator
                WHEN 'aten::native_layer_norm_backward'
                THEN [part = 'True' FOR part IN string_split(trim(concrete[8], '[]'), ', ')]
                WHEN 'aten::native_batch_norm_backward'
                THEN [part = 'True' FOR part IN string_split(trim(concrete[10], '[]'), ', ')]
            END AS mask
        FROM tensors
    ),
    parameters AS (
        SELECT
            *,
            -- Positions of weight and bias among the arguments, counted from 1.
            CASE
                WHEN operator = 'aten::native_layer_norm' THEN [3, 4]
                WHEN operator = 'aten::_fused_rms_norm' THEN [3]
                WHEN operator = 'aten::native_layer_norm_backward' THEN [6]
                WHEN operator = 'aten::native_batch_norm_backward' THEN [3]
                ELSE [2, 3]
            END AS places
        FROM outputs
    ),
    parameter_sizes AS (
        SELECT
            *,
            coalesce(list_sum([
                element_count(tensor_shape(dims, place - 1)) * element_bytes(types[place])
                FOR place IN places
                IF element_bytes(types[place]) IS NOT NULL
            ]), 0) AS parameters_size
        FROM parameters
    )
    SELECT
        signature_id,
        CAST(0 AS HUGEINT) AS flops,
        CAST(0 AS HUGEINT) AS flops_unmasked,
        CAST(0 AS HUGEINT) AS once_flops,
        CAST(
            CASE
                WHEN operator = 'aten::copy_'
                THEN element_count(inputs[1].shape) * inputs[1].bytes + element_count(inputs[2].shape) * inputs[2].bytes
                -- The gradient and the output that the forward pass made.
                WHEN family = 'softmax' THEN input_size + output_size
                WHEN mask IS NOT NULL
                THEN element_count(inputs[1].shape) * inputs[1].bytes
                    + element_count(inputs[2].shape) * inputs[2].bytes * if(mask[1], 2, 1)
                    + parameters_size * (1 + CAST(mask[2] AS INTEGER) + CAST(mask[3] AS INTEGER))
                WHEN family = 'norm' THEN element_count(inputs[1].shape) * first_bytes + output_size + parameters_size
                -- Rows of the table are read where an index names them, and written.
                WHEN operator = 'aten::embedding'
                THEN 2 * output_size + element_count(inputs[2].shape) * inputs[2].bytes
                WHEN operator = 'aten::index_select'
                THEN 2 * output_size + element_count(inputs[2].shape) * inputs[2].bytes
                -- A tensor that is changed in place is an input already: it is read and written.
                ELSE input_size + output_size
            END
            AS HUGEINT
        ) AS size_bytes,
        size_bytes - expanded_size AS stored_bytes
    FROM parameter_sizes
);
