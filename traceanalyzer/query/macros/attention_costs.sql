-- Operations and least bytes of fused attention, from signatures as operator_costs reads them. Of P pairs of a query and a
-- key that the mask allows, over all batches and query heads, the forward pass takes 2 P (Dq + Dv) operations. The backward
-- pass makes five products instead of two, one of which the forward pass has already made (`once_flops` leaves it out). A
-- causal mask of PyTorch starts in the upper left corner, one of the flash-attn package ends in the lower right. Where the
-- mask was not recorded, `flops` is unknown and `flops_unmasked` is not.
CREATE OR REPLACE MACRO attention_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            contains(operator, 'backward') AS is_backward,
            starts_with(operator, 'flash_attn::') AS is_package,
            CASE WHEN contains(operator, 'backward') THEN 1 ELSE 0 END AS q_place,
            concrete[CASE operator
                WHEN 'aten::_scaled_dot_product_flash_attention' THEN 5
                WHEN 'aten::_scaled_dot_product_efficient_attention' THEN 7
                WHEN 'aten::_scaled_dot_product_cudnn_attention' THEN 7
                WHEN 'aten::_scaled_dot_product_flash_attention_backward' THEN 12
                WHEN 'aten::_scaled_dot_product_efficient_attention_backward' THEN 12
                WHEN 'aten::_scaled_dot_product_cudnn_attention_backward' THEN 15
                WHEN 'flash_attn::_flash_attn_forward' THEN 6
                WHEN 'flash_attn::_flash_attn_backward' THEN 12
            END] AS causal,
            CASE
                WHEN operator IN (
                    'aten::_scaled_dot_product_efficient_attention', 'aten::_scaled_dot_product_cudnn_attention'
                ) THEN 3
                WHEN operator = 'aten::_scaled_dot_product_efficient_attention_backward' THEN 4
            END AS bias_place
        FROM query_table(signatures)
        WHERE family = 'attention'
    ),
    tensors AS (
        SELECT
            *,
            tensor_shape(dims, q_place) AS q,
            tensor_shape(dims, q_place + 1) AS k,
            tensor_shape(dims, q_place + 2) AS v,
            element_bytes(types[q_place + 1]) AS q_bytes,
            element_bytes(types[q_place + 2]) AS k_bytes,
            element_bytes(types[q_place + 3]) AS v_bytes
        FROM placed
    ),
    sizes AS (
        SELECT
            *,
            CAST(q[if(is_package, 2, 3)] AS HUGEINT) AS q_length,
            CAST(k[if(is_package, 2, 3)] AS HUGEINT) AS k_length,
            CAST(q[1] AS HUGEINT) * q[if(is_package, 3, 2)] AS head_count,
            least(q_length, k_length) AS shorter
        FROM tensors
        WHERE len(q) = 4 AND len(k) = 4 AND len(v) = 4
    ),
    pairs AS (
        SELECT
            *,
            head_count * q_length * k_length AS all_pairs,
            CASE
                WHEN causal = 'False' THEN head_count * q_length * k_length
                WHEN causal = 'True' AND is_package
                THEN head_count * (shorter * k_length - shorter * (shorter - 1) // 2)
                WHEN causal = 'True' THEN head_count * (shorter * (shorter + 1) // 2 + (q_length - shorter) * k_length)
            END AS allowed_pairs,
            if(is_backward, 3, 1) * q[4] + if(is_backward, 2, 1) * v[4] AS executed_length,
            if(is_backward, 2, 1) * q[4] + if(is_backward, 2, 1) * v[4] AS once_length,
            CAST(element_count(q) * q_bytes + element_count(k) * k_bytes + element_count(v) * v_bytes AS HUGEINT) AS inputs_size,
            head_count * q_length * v[4] * q_bytes AS output_size
        FROM sizes
    )
    SELECT
        signature_id,
        CAST(2 * allowed_pairs * executed_length AS HUGEINT) AS flops,
        CAST(2 * all_pairs * executed_length AS HUGEINT) AS flops_unmasked,
        CAST(2 * allowed_pairs * once_length AS HUGEINT) AS once_flops,
        CAST(
            if(is_backward, 2, 1) * (inputs_size + output_size)
            + coalesce(
                CASE
                    WHEN types[bias_place + 1] <> ''
                    THEN element_count(tensor_shape(dims, bias_place)) * element_bytes(types[bias_place + 1])
                END,
                0
            )
            AS HUGEINT
        ) AS size_bytes,
        size_bytes AS stored_bytes
    FROM pairs
);
