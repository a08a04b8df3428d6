-- Operations and least bytes of convolutions, from signatures as operator_costs reads them. Each output element is a dot
-- product over a filter's elements, which already are those of one group. A transposed convolution has one for each
-- element of its input. The gradients of the input and of the weight take as many operations as the forward pass: each
-- where the output mask asks for it. Where no strides were recorded, the output's shape is that of its gradient
-- (`out_dims`), which the backward node with the same sequence number got.
CREATE OR REPLACE MACRO convolution_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            contains(operator, 'backward') AS is_backward,
            CASE operator WHEN 'aten::convolution_backward' THEN 1 ELSE 0 END AS x_place,
            if(is_backward, 2, 1) AS w_place,
            if(is_backward, concrete[5:], concrete[4:]) AS options
        FROM query_table(signatures)
        WHERE family = 'convolution'
    ),
    tensors AS (
        SELECT
            *,
            shapes[x_place + 1] AS x,
            shapes[w_place + 1] AS w,
            type_bytes[x_place + 1] AS x_bytes,
            type_bytes[w_place + 1] AS w_bytes,
            CASE operator
                WHEN 'aten::convolution_backward' THEN shapes[1]
                WHEN 'aten::cudnn_convolution_backward' THEN shapes[2]
            END AS gradient,
            -- stride, padding, dilation, transposed, output padding, groups; some tools write lists as tuples
            TRY_CAST(translate(options[1], '()', '[]') AS BIGINT[]) AS stride,
            TRY_CAST(translate(options[2], '()', '[]') AS BIGINT[]) AS padding,
            TRY_CAST(translate(options[3], '()', '[]') AS BIGINT[]) AS dilation,
            coalesce(options[4] = 'True', FALSE) AS transposed,
            TRY_CAST(translate(options[5], '()', '[]') AS BIGINT[]) AS output_padding,
            coalesce(TRY_CAST(options[6] AS BIGINT), 1) AS group_count,
            CASE operator
                WHEN 'aten::convolution_backward'
                THEN [part = 'True' FOR part IN string_split(trim(concrete[11], '[]'), ', ')]
                WHEN 'aten::cudnn_convolution_backward' THEN [has_input_gradient, has_weight_gradient, FALSE]
            END AS mask
        FROM placed
    ),
    outputs AS (
        SELECT
            *,
            coalesce(
                gradient, CASE WHEN stride IS NULL THEN out_dims END,
                [x[1], if(transposed, w[2] * group_count, w[1])] || [
                    CASE
                        WHEN transposed
                        THEN (x[axis + 2] - 1) * stride[least(axis, len(stride))]
                            - 2 * padding[least(axis, len(padding))]
                            + dilation[least(axis, len(dilation))] * (w[axis + 2] - 1)
                            + output_padding[least(axis, len(output_padding))]
                            + 1
                        ELSE (
                            x[axis + 2] + 2 * padding[least(axis, len(padding))]
                            - dilation[least(axis, len(dilation))] * (w[axis + 2] - 1) - 1
                        ) // stride[least(axis, len(stride))] + 1
                    END
                    FOR axis IN range(1, len(w) - 1)
                ]
            ) AS y
        FROM tensors
        WHERE len(x) = len(w) AND len(x) >= 3
    ),
    sizes AS (
        SELECT
            *,
            -- A product with an unknown length is unknown.
            CASE WHEN NOT list_contains([length IS NULL FOR length IN y], TRUE) THEN element_count(y) END AS y_count,
            2 * CAST(if(transposed, element_count(x), y_count) AS HUGEINT) * element_count(w[2:]) AS once,
            CASE WHEN is_backward THEN element_count(shapes[if(x_place = 1, 0, 1) + 1]) END AS gradient_count,
            element_count(x) * x_bytes AS x_size,
            element_count(w) * w_bytes AS w_size
        FROM outputs
    )
    SELECT
        signature_id,
        CAST(CASE WHEN is_backward THEN once * (CAST(mask[1] AS INTEGER) + CAST(mask[2] AS INTEGER)) ELSE once END AS HUGEINT) AS flops,
        flops AS flops_unmasked, flops AS once_flops,
        CAST(
            CASE
                WHEN is_backward
                THEN CAST(gradient_count AS HUGEINT) * type_bytes[if(x_place = 1, 1, 2)]
                    + if(mask[1], w_size + x_size, 0)
                    + if(mask[2], x_size + w_size, 0)
                    + if(mask[3], if(transposed, w[2] * group_count, w[1]) * w_bytes, 0)
                ELSE CAST(x_size AS HUGEINT) + w_size + y_count * x_bytes
                    + coalesce(CASE WHEN types[3] <> '' THEN element_count(shapes[3]) * type_bytes[3] END, 0)
            END
            AS HUGEINT
        ) AS size_bytes,
        size_bytes AS stored_bytes
    FROM sizes
);
