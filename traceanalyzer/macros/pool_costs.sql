-- Least bytes of pooling over two dimensions, from signatures as operator_costs reads them: the input once, and an element
-- for each position of the window, with its place (8 bytes) where the largest one is kept. Windows that reach over the
-- border (ceil_mode) are unknown. Their operations do not count.
CREATE OR REPLACE MACRO pool_costs(signatures) AS TABLE (
    WITH options AS (
        SELECT
            *,
            shapes[1] AS x,
            type_bytes[1] AS x_bytes,
            operator = 'aten::max_pool2d_with_indices' AS keeps_places,
            TRY_CAST(concrete[2] AS BIGINT[]) AS kernel,
            CASE WHEN concrete[3] = '[]' THEN kernel ELSE TRY_CAST(concrete[3] AS BIGINT[]) END AS stride,
            TRY_CAST(concrete[4] AS BIGINT[]) AS padding,
            CASE WHEN keeps_places THEN TRY_CAST(concrete[5] AS BIGINT[]) ELSE [1] END AS dilation,
            concrete[if(keeps_places, 6, 5)] = 'False' AS stays_inside
        FROM query_table(signatures)
        WHERE family = 'pool' AND writes IS NULL
    ),
    outputs AS (
        SELECT
            *,
            CASE
                WHEN operator = 'aten::_adaptive_avg_pool2d' THEN kernel
                WHEN stays_inside
                THEN [
                    (
                        x[len(x) - 2 + axis] + 2 * padding[least(axis, len(padding))]
                        - dilation[least(axis, len(dilation))] * (kernel[least(axis, len(kernel))] - 1) - 1
                    ) // stride[least(axis, len(stride))] + 1
                    FOR axis IN [1, 2]
                ]
            END AS window_counts
        FROM options
        WHERE len(x) IN (3, 4)
    )
    SELECT
        signature_id,
        CAST(
            element_count(x) * x_bytes
            + element_count(x[:-3]) * window_counts[1] * window_counts[2] * (x_bytes + if(keeps_places, 8, 0))
            AS HUGEINT
        ) AS size_bytes,
        CAST(size_bytes - coalesce(expanded_sizes[1], 0) AS HUGEINT) AS stored_bytes
    FROM outputs
);
