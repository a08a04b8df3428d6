-- Operations and least bytes of matmuls, from signatures as operator_costs reads them: an m x k matrix times a
-- k x n matrix takes 2 m n k operations, and reads both and writes m x n elements. What is added (addmm, baddbmm, addmv)
-- is read unless its factor beta is 0. Bias and scales of scaled products are read too, unless scales are lists, whose
-- types are not recorded. Of grouped products (tokens m x k, one k x n matrix a group) each token meets one group; how many
-- meet which is data, so the bytes count every group once. Their backward pass divides k instead, the tokens, among as
-- many m x n results.
CREATE OR REPLACE MACRO matrix_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            if(contains(operator, 'add'), 1, 0) AS first_operand,
            contains(operator, 'grouped_mm') AS is_grouped
        FROM query_table(signatures)
        WHERE family = 'matrix'
    ),
    operands AS (
        SELECT
            *,
            shapes[first_operand + 1] AS lhs,
            shapes[first_operand + 2] AS rhs,
            type_bytes[first_operand + 1] AS lhs_bytes,
            type_bytes[first_operand + 2] AS rhs_bytes,
            coalesce(
                scalar_type_bytes(CASE operator
                    WHEN 'aten::_int_mm' THEN '3'
                    WHEN 'aten::mm' THEN concrete[3]
                    WHEN 'aten::bmm' THEN concrete[3]
                    WHEN 'aten::_scaled_mm' THEN concrete[7]
                    WHEN 'aten::_scaled_grouped_mm' THEN concrete[8]
                    WHEN 'aten::_scaled_mm_v2' THEN concrete[10]
                    WHEN 'aten::_scaled_grouped_mm_v2' THEN concrete[11]
                END),
                lhs_bytes
            ) AS out_bytes,
            CASE
                WHEN first_operand = 1 AND coalesce(TRY_CAST(concrete[4] AS DOUBLE), 1) <> 0
                THEN element_count(shapes[1]) * type_bytes[1]
                ELSE coalesce(list_sum([
                    coalesce(element_count(shapes[place + 1]) * type_bytes[place + 1], 0)
                    FOR place IN CASE operator
                        WHEN 'aten::_scaled_mm' THEN [2, 3, 4]
                        WHEN 'aten::_scaled_grouped_mm' THEN [2, 3, 5]
                        WHEN 'aten::_scaled_mm_v2' THEN [8]
                        WHEN 'aten::_scaled_grouped_mm_v2' THEN [9]
                    END
                ]), 0)
            END AS other_bytes
        FROM placed
    ),
    sizes AS (
        SELECT
            *,
            -- A vector is a matrix with one column.
            CASE WHEN len(rhs) = 1 THEN 1 ELSE rhs[-1] END AS columns,
            CASE WHEN operator = 'aten::dot' THEN 1 ELSE element_count(lhs[:-2]) END AS rows_of_all,
            -- An element of this type holds two numbers of 4 bits.
            lhs[-1] * if(starts_with(types[1], 'c10::Float4_e2m1fn_x2'), 2, 1) AS length,
            -- Where the groups divide the length of the dot products, each has a result.
            CASE
                WHEN is_grouped AND len(rhs) = 2
                THEN shapes[CASE operator WHEN 'aten::_grouped_mm' THEN 3 WHEN 'aten::_scaled_grouped_mm' THEN 5 ELSE 9 END][1]
                ELSE 1
            END AS result_count
        FROM operands
        WHERE CASE
            WHEN operator = 'aten::dot' THEN len(lhs) = 1 AND len(rhs) = 1 AND lhs[-1] = rhs[-1]
            WHEN contains(operator, 'mv') THEN len(lhs) = 2 AND len(rhs) = 1 AND lhs[-1] = rhs[-1]
            WHEN contains(operator, 'bmm')
            THEN len(lhs) = 3 AND len(rhs) = 3 AND lhs[1] = rhs[1] AND lhs[-1] = rhs[-2]
            WHEN is_grouped
            THEN len(lhs) IN (2, len(rhs)) AND len(rhs) IN (2, 3) AND lhs[-1] = rhs[-2]
            ELSE len(lhs) = 2 AND len(rhs) = 2 AND lhs[-1] = rhs[-2]
        END
    )
    SELECT
        signature_id,
        CAST(2 * CAST(rows_of_all AS HUGEINT) * columns * length AS HUGEINT) AS flops,
        flops AS flops_unmasked, flops AS once_flops,
        CAST(
            CAST(element_count(lhs) AS HUGEINT) * lhs_bytes
            + CAST(element_count(rhs) AS HUGEINT) * rhs_bytes
            + CAST(rows_of_all AS HUGEINT) * columns * result_count * out_bytes
            + other_bytes
            AS HUGEINT
        ) AS size_bytes,
        size_bytes AS stored_bytes
    FROM sizes
);
