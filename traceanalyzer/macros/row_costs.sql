-- Least bytes of operators that read or write rows which indices name, from signatures as operator_costs reads them: each
-- row as often as it is named, an upper bound where indices repeat or stand for nothing, and the indices. Rotary
-- embeddings read a row of sines and cosines a token, and change the first elements of each head, as many as such a row
-- has. Their operations do not count.
CREATE OR REPLACE MACRO row_costs(signatures) AS TABLE (
    WITH shapes AS (
        SELECT
            *,
            shapes[1] AS x,
            type_bytes[1] AS x_bytes,
            CASE
                WHEN operator IN ('aten::index_select', 'aten::gather') THEN 2
                WHEN contains(operator, 'cache') THEN 4
                WHEN contains(operator, 'rotary') THEN 0
                ELSE 1
            END AS index_place,
            input_sizes[index_place + 1] AS index_size,
            element_count(shapes[index_place + 1]) AS index_count,
            shapes[5][-1] AS turned_length,
            nullif(TRY_CAST(concrete[4] AS BIGINT), 0) AS head_length
        FROM query_table(signatures)
        WHERE family = 'embedding'
    )
    SELECT
        signature_id,
        CAST(
            CASE
                WHEN index_size = 0 AND dims[index_place + 1] = '[]' THEN NULL
                WHEN operator = 'aten::embedding' THEN 2 * index_count * x[-1] * x_bytes + index_size
                WHEN operator = 'aten::embedding_dense_backward'
                THEN input_sizes[1] + index_size + TRY_CAST(concrete[3] AS BIGINT) * x[-1] * x_bytes
                WHEN operator = 'aten::index_select'
                THEN 2 * element_count(x) * x_bytes * index_count
                    // nullif(x[((TRY_CAST(concrete[2] AS BIGINT) + len(x)) % len(x)) + 1], 0) + index_size
                WHEN operator = 'aten::gather' THEN 2 * index_count * x_bytes + index_size
                WHEN contains(operator, 'rotary')
                THEN index_size + index_count * turned_length * type_bytes[5]
                    + 2 * (input_sizes[2] + input_sizes[3]) // head_length * turned_length
                WHEN contains(operator, 'cache')
                THEN index_size
                    + index_count * element_count(x[2:]) * (x_bytes + type_bytes[3])
                    + index_count * element_count(shapes[2][2:]) * (type_bytes[2] + type_bytes[4])
            END
            AS HUGEINT
        ) AS size_bytes,
        CAST(size_bytes - coalesce(expanded_sizes[index_place + 1], 0) AS HUGEINT) AS stored_bytes
    FROM shapes
);
