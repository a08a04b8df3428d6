-- Least bytes of operators that reduce, order or sum up along dimensions, from signatures as operator_costs reads them:
-- the input once, and what is left of it once. Which dimensions go is a text, such as `[0, -1]`, a number, or nothing for
-- all of them. Places of elements have 8 bytes; sums of integers too. What was asked to be written to is the output.
-- Their operations do not count.
CREATE OR REPLACE MACRO reduce_costs(signatures) AS TABLE (
    WITH read_inputs AS (
        SELECT
            *,
            shapes[1] AS x,
            element_count(x) AS x_count,
            type_bytes[1] AS x_bytes,
            contains(types[1], 'complex') AS is_complex,
            NOT regexp_matches(types[1], 'double|float|Half|Float|complex') AS is_integer,
            concrete[if(operator IN ('aten::norm', 'aten::linalg_vector_norm'), 3, 2)] AS reduced,
            CASE
                WHEN operator IN ('aten::sum', 'aten::mean') THEN concrete[if(len(types) = 2, 2, 4)]
                WHEN operator = 'aten::cumsum' THEN concrete[3]
                WHEN operator IN ('aten::norm', 'aten::linalg_vector_norm') THEN concrete[if(len(types) = 3, 3, 5)]
            END AS asked_type
        FROM query_table(signatures)
        WHERE family = 'reduce' AND NOT list_contains(types, 'TensorList')
    ),
    reductions AS (
        SELECT
            *,
            CASE
                WHEN starts_with(reduced, '[') AND reduced <> '[]' THEN TRY_CAST(reduced AS BIGINT[])
                WHEN operator IN ('aten::max', 'aten::min', 'aten::argmax', 'aten::argmin', 'aten::all', 'aten::any')
                 AND regexp_full_match(reduced, '-?\d+')
                THEN [CAST(reduced AS BIGINT)]
                -- Without arguments beside the input, and its type, there are no dimensions to name.
                WHEN concrete IS NOT NULL OR len(types) = 1 OR (len(types) = 2 AND operator IN ('aten::sum', 'aten::mean'))
                THEN range(len(x))
            END AS axes,
            element_count([
                x[axis] FOR axis IN range(1, len(x) + 1)
                IF NOT list_contains([if(reduced_axis < 0, reduced_axis + len(x), reduced_axis) + 1 FOR reduced_axis IN axes], axis)
            ]) AS left_count,
            -- Two tensors: not a reduction, but the larger or the smaller of both.
            operator IN ('aten::max', 'aten::min') AND type_bytes[2] IS NOT NULL AS is_pair
        FROM read_inputs
    ),
    outputs AS (
        SELECT
            *,
            CASE
                WHEN operator = 'aten::cumsum' AND concrete IS NOT NULL
                THEN x_count * coalesce(scalar_type_bytes(asked_type), if(is_integer, 8, x_bytes))
                WHEN operator = 'aten::sort' THEN x_count * (x_bytes + 8)
                WHEN operator = 'aten::topk'
                THEN x_count // nullif(x[(TRY_CAST(concrete[3] AS BIGINT) + len(x)) % len(x) + 1], 0)
                    * TRY_CAST(concrete[2] AS BIGINT) * (x_bytes + 8)
                WHEN operator = 'aten::mse_loss' AND types[1] = types[2] AND dims[1] = dims[2]
                THEN if(concrete[3] = '0', x_count, CASE WHEN concrete IS NOT NULL THEN 1 END) * x_bytes
                WHEN is_pair
                THEN CASE WHEN types[1] = types[2] AND dims[1] = dims[2] AND dims[2] <> '[]' THEN x_count * x_bytes END
                WHEN operator = 'aten::sum' AND axes IS NOT NULL
                THEN left_count * coalesce(scalar_type_bytes(asked_type), if(is_integer, 8, x_bytes))
                WHEN axes IS NOT NULL AND operator IN ('aten::mean', 'aten::norm', 'aten::linalg_vector_norm') AND NOT is_complex
                THEN left_count * coalesce(scalar_type_bytes(asked_type), x_bytes)
                WHEN axes IS NOT NULL AND operator IN ('aten::amax', 'aten::amin') THEN left_count * x_bytes
                WHEN axes IS NOT NULL AND operator IN ('aten::max', 'aten::min')
                THEN left_count * (x_bytes + if(regexp_full_match(reduced, '-?\d+'), 8, 0))
                WHEN axes IS NOT NULL AND operator IN ('aten::argmax', 'aten::argmin') THEN left_count * 8
                WHEN axes IS NOT NULL AND operator IN ('aten::all', 'aten::any') THEN left_count
                WHEN axes IS NOT NULL AND operator IN ('aten::var', 'aten::std') AND NOT is_complex
                THEN left_count * x_bytes
                WHEN axes IS NOT NULL AND operator = 'aten::var_mean' AND NOT is_complex THEN left_count * 2 * x_bytes
            END AS output_size
        FROM reductions
        WHERE x_bytes IS NOT NULL
    )
    SELECT
        signature_id,
        CAST(
            x_count * x_bytes
            + if(is_pair OR operator = 'aten::mse_loss', input_sizes[2], 0)
            + output_size
            AS HUGEINT
        ) AS size_bytes,
        CAST(size_bytes - coalesce(expanded_sizes[1], 0) AS HUGEINT) AS stored_bytes
    FROM outputs
);
