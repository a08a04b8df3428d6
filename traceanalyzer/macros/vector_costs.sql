-- Least bytes of element-wise operators and of softmax, from signatures as operator_costs reads them: each input once, at
-- its own size, and the output once, broadcast. `stored_bytes` counts a dimension that was expanded (stride 0) once, for
-- memory holds it once. Their operations do not count.
CREATE OR REPLACE MACRO vector_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            -- What follows an operator's operands is what it was asked to write to, and counts as its output.
            CASE
                WHEN rtrim(operator, '_') IN ('aten::where', 'aten::clamp', 'aten::addcmul', 'aten::addcdiv', 'aten::lerp') THEN 3
                WHEN family = 'softmax' THEN 1
                WHEN rtrim(operator, '_') IN (
                    'aten::neg', 'aten::exp', 'aten::log', 'aten::sqrt', 'aten::rsqrt', 'aten::tanh', 'aten::sigmoid',
                    'aten::silu', 'aten::gelu', 'aten::relu', 'aten::threshold', 'aten::hardtanh', 'aten::logical_not',
                    'aten::bitwise_not', 'aten::abs', 'aten::sin', 'aten::cos', 'aten::reciprocal', 'aten::native_dropout',
                    'aten::_fused_dropout', 'aten::leaky_relu', 'aten::elu', 'aten::softplus', 'aten::hardswish',
                    'aten::hardsigmoid'
                ) THEN 1
                ELSE 2
            END AS operand_count
        FROM query_table(signatures)
        WHERE family IN ('elementwise', 'softmax')
          AND writes IS NULL
          AND NOT list_contains(types, 'TensorList')
    ),
    read_inputs AS (
        SELECT
            *,
            [
                {
                    'shape': shapes[place + 1],
                    'bytes': type_bytes[place + 1],
                    'kind': CASE
                        WHEN contains(types[place + 1], 'complex') THEN 3
                        WHEN regexp_matches(types[place + 1], 'double|float|Half|Float') THEN 2
                        WHEN types[place + 1] = 'bool' THEN 0
                        ELSE 1
                    END,
                    'expanded': expanded_sizes[place + 1]
                }
                FOR place IN range(least(len(types), operand_count))
                IF type_bytes[place + 1] IS NOT NULL
            ] AS inputs,
            -- The kind of the numbers among the operands.
            coalesce(list_max([
                CASE
                    WHEN types[place] = 'Double' OR regexp_matches(concrete[place], '\d[.e]|inf|nan') THEN 2
                    WHEN types[place] = 'Int' OR regexp_full_match(concrete[place], '-?\d+') THEN 1
                    ELSE 0
                END
                FOR place IN range(1, least(len(types), operand_count) + 1)
            ]), 0) AS number_kind
        FROM placed
    ),
    tensors AS (
        SELECT
            *,
            inputs[1].shape AS first_shape,
            inputs[1].bytes AS first_bytes,
            list_sum([element_count(input.shape) * input.bytes FOR input IN inputs]) AS input_size,
            list_max([len(input.shape) FOR input IN inputs]) AS axis_count,
            list_max([input.kind FOR input IN inputs]) AS kind
        FROM read_inputs
        WHERE len(inputs) > 0 AND NOT list_contains([input.shape IS NULL FOR input IN inputs], TRUE)
    ),
    -- What an operator writes, as a number of elements and their size.
    outputs AS (
        SELECT
            *,
            CASE
                WHEN family = 'softmax' THEN element_count(first_shape) * if(concrete[3] = 'True', 4, first_bytes)
                WHEN ends_with(operator, '_') THEN element_count(first_shape) * first_bytes
                -- The mask has a byte an element; without training nothing is written.
                WHEN operator = 'aten::native_dropout'
                THEN CASE
                    WHEN concrete[3] <> 'False' AND TRY_CAST(concrete[2] AS DOUBLE) > 0
                    THEN element_count(first_shape) * (first_bytes + 1)
                END
                WHEN operator = 'aten::_fused_dropout' THEN element_count(first_shape) * (first_bytes + 1)
                WHEN operator = 'aten::abs' AND kind = 3 THEN element_count(first_shape) * first_bytes // 2
                ELSE element_count([
                    list_max([input.shape[-axis] FOR input IN inputs]) FOR axis IN range(1, axis_count + 1)
                ]) * CASE
                    WHEN operator IN (
                        'aten::eq', 'aten::ne', 'aten::lt', 'aten::le', 'aten::gt', 'aten::ge', 'aten::logical_not',
                        'aten::logical_and', 'aten::logical_or'
                    ) THEN 1
                    WHEN operator = 'aten::where' THEN result_bytes(inputs[2:], types[2:], FALSE)
                    -- A number whose value was not recorded may make integers real.
                    WHEN concrete IS NULL
                     AND kind < 2
                     AND list_contains(types[:operand_count], 'Scalar')
                     AND operator NOT IN ('aten::div', 'aten::bitwise_and', 'aten::bitwise_or')
                    THEN NULL
                    WHEN number_kind = 1 AND kind = 0 THEN 8
                    ELSE result_bytes(inputs, types, number_kind = 2 OR operator IN (
                        'aten::div', 'aten::exp', 'aten::log', 'aten::sqrt', 'aten::rsqrt', 'aten::tanh', 'aten::sigmoid',
                        'aten::silu', 'aten::gelu', 'aten::sin', 'aten::cos', 'aten::atan2', 'aten::reciprocal'
                    ))
                END
            END AS output_size
        FROM tensors
    )
    SELECT
        signature_id,
        -- A tensor that is changed in place is an input already: it is read and written.
        CAST(input_size + output_size AS HUGEINT) AS size_bytes,
        CAST(size_bytes - list_sum([input.expanded FOR input IN inputs]) AS HUGEINT) AS stored_bytes
    FROM outputs
);
