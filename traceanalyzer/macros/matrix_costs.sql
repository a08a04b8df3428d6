-- Operations and least bytes of matmuls, from signatures as operator_costs reads them: an m x k matrix times a
-- k x n matrix takes 2 m n k operations, and reads both and writes m x n elements. What is added (addmm, baddbmm, addmv)
-- is read unless its factor beta is 0. Scales and bias of scaled products are read too. Of grouped products (tokens m x k,
-- one k x n matrix a group) each token meets one group; how many meet which is data, so the bytes count every group once.
-- Their backward pass divides k instead, the tokens, among as many m x n results.
CREATE OR REPLACE MACRO matrix_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            CASE
                WHEN operator IN ('aten::addmm', 'aten::_addmm_activation', 'aten::baddbmm', 'aten::addmv') THEN 1
                ELSE 0
            END AS first_operand
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
                END),
                lhs_bytes
            ) AS out_bytes,
            CASE
                WHEN operator IN ('aten::addmm', 'aten::_addmm_activation', 'aten::baddbmm', 'aten::addmv')
                 AND coalesce(TRY_CAST(concrete[4] AS DOUBLE), 1) <> 0
                THEN element_count(shapes[1]) * type_bytes[1]
                WHEN operator IN ('aten::_scaled_mm', 'aten::_scaled_grouped_mm')
                THEN list_sum([
                    coalesce(element_count(shapes[place + 1]) * type_bytes[place + 1], 0)
                    FOR place IN if(operator = 'aten::_scaled_mm', [2, 3, 4], [2, 3, 5])
                ])
                ELSE 0
            END AS other_bytes
        FROM placed
    ),
    sizes AS (
        SELECT
            *,
            -- A vector is a matrix with one column.
            CASE WHEN operator IN ('aten::mv', 'aten::addmv', 'aten::dot') THEN 1 ELSE rhs[-1] END AS columns,
            CASE WHEN operator = 'aten::dot' THEN 1 ELSE element_count(lhs[:-2]) END AS rows_of_all,
            -- An element of this type holds two numbers of 4 bits.
            lhs[-1] * if(starts_with(types[1], 'c10::Float4_e2m1fn_x2'), 2, 1) AS length,
            -- Where the groups divide the length of the dot products, each has a result.
            CASE
                WHEN contains(operator, 'grouped_mm') AND len(rhs) = 2
                THEN shapes[if(operator = 'aten::_grouped_mm', 3, 5)][1]
                ELSE 1
            END AS result_count
        FROM operands
        WHERE CASE
            WHEN operator = 'aten::dot' THEN len(lhs) = 1 AND len(rhs) = 1 AND lhs[-1] = rhs[-1]
            WHEN operator IN ('aten::mv', 'aten::addmv') THEN len(lhs) = 2 AND len(rhs) = 1 AND lhs[-1] = rhs[-1]
            WHEN operator IN ('aten::bmm', 'aten::baddbmm')
            THEN len(lhs) = 3 AND len(rhs) = 3 AND lhs[1] = rhs[1] AND lhs[-1] = rhs[-2]
            WHEN operator IN ('aten::_grouped_mm', 'aten::_scaled_grouped_mm')
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
