-- Operations and least bytes of fused attention, from signatures as operator_costs reads them. Of P pairs of a query and
-- a key that the mask allows, over all batches and query heads, the forward pass takes 2 P (Dq + Dv) operations. The
-- backward pass makes five products instead of two, one of which the forward pass has already made (`once_flops` leaves
-- it out). A causal mask of PyTorch starts in the upper left corner, but that of its operators for flash attention ends
-- in the lower right, as those of the flash-attn package and of AITER do. Where the mask was not recorded, or has a
-- window, `flops` is unknown and `flops_unmasked` is not, and what it can be at least is in `flops_least`.
--
-- Sequences of different lengths lie one after the other, and where each ends is data. The longest length is an argument:
-- where as many sequences of that length have as many tokens, all have it. Else the operations are unknown, the bytes not.
CREATE OR REPLACE MACRO attention_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            signatures.*,
            contains(signatures.operator, 'backward') AS is_backward,
            regexp_matches(signatures.operator, '^(flash_attn|aiter)::') AS is_package,
            -- Batch, sequence, head, as the package has them; else batch, head, sequence.
            NOT contains(signatures.operator, '_scaled_dot_product_') AS has_heads_last,
            CASE WHEN contains(signatures.operator, 'backward') THEN 1 ELSE 0 END AS q_place,
            concrete[mask_at + 1] AS mask,
            bias_at AS bias_place, ends_at AS ends_place, longest_at AS longest_place,
            -- A window follows the mask: how many keys before and behind a query. Other numbers there are real.
            CASE
                WHEN is_package
                THEN len(concrete) >= mask_at + 3
                    AND NOT (concrete[mask_at + 2] = '-1' AND concrete[mask_at + 3] IN ('-1', if(mask = 'True', '0', '-1')))
                WHEN ends_at IS NOT NULL
                THEN list_contains([regexp_full_match(value, '\d+') FOR value IN concrete[mask_at + 2:]], TRUE)
                ELSE FALSE
            END AS has_window,
            -- Tensors behind the mask may say that less of the keys is in use.
            NOT is_backward
            AND ends_at IS NOT NULL
            AND len(list_filter(type_bytes[mask_at + 2:], lambda size: size IS NOT NULL)) > 0
                AS has_used_lengths
        FROM query_table(signatures) AS signatures
        -- Places of the mask, the bias, the ends of the sequences of queries, and the longest length of them, from 0.
        JOIN (
            VALUES
            ('aten::_scaled_dot_product_flash_attention', 4, NULL, NULL, NULL),
            ('aten::_scaled_dot_product_efficient_attention', 6, 3, NULL, NULL),
            ('aten::_scaled_dot_product_cudnn_attention', 6, 3, NULL, NULL),
            ('aten::_scaled_dot_product_flash_attention_backward', 11, NULL, NULL, NULL),
            ('aten::_scaled_dot_product_efficient_attention_backward', 11, 4, NULL, NULL),
            ('aten::_scaled_dot_product_cudnn_attention_backward', 14, NULL, NULL, NULL),
            -- What other vendors' devices bring.
            ('aten::_scaled_dot_product_fused_attention_overrideable', 5, 3, NULL, NULL),
            ('aten::_scaled_dot_product_fused_attention_overrideable_backward', 13, 4, NULL, NULL),
            ('flash_attn::_flash_attn_forward', 5, NULL, NULL, NULL),
            ('aiter::_flash_attn_forward', 5, NULL, NULL, NULL),
            ('aiter::mha_fwd', 5, NULL, NULL, NULL),
            ('aiter::fmha_v3_fwd', 5, NULL, NULL, NULL),
            ('flash_attn::_flash_attn_backward', 11, NULL, NULL, NULL),
            ('flash_attn::_flash_attn_varlen_forward', 9, NULL, 3, 5),
            ('flash_attn::_flash_attn_varlen_backward', 15, NULL, 9, 11),
            ('aten::_flash_attention_forward', 8, NULL, 3, 5),
            ('aten::_flash_attention_backward', 11, NULL, 6, 8),
            ('aten::_efficient_attention_forward', 9, 3, 4, 6),
            ('aten::_efficient_attention_backward', 14, 4, 6, 8)
        ) AS places (operator, mask_at, bias_at, ends_at, longest_at) USING (operator)
    ),
    tensors AS (
        SELECT
            *,
            shapes[q_place + 1] AS q,
            shapes[q_place + 2] AS k,
            shapes[q_place + 3] AS v,
            type_bytes[q_place + 1] AS q_bytes,
            type_bytes[q_place + 2] AS k_bytes,
            type_bytes[q_place + 3] AS v_bytes,
            -- Of several sequences behind each other: how many.
            CASE WHEN type_bytes[ends_place + 1] IS NOT NULL THEN shapes[ends_place + 1][1] - 1 END AS sequence_count,
            CASE
                WHEN mask IN ('False', '0') THEN 'none'
                WHEN mask = '2' OR (mask = 'True' AND (is_package OR contains(operator, 'flash_attention'))) THEN 'lower right'
                WHEN mask IN ('True', '1') THEN 'upper left'
            END AS mask_kind
        FROM placed
    ),
    sizes AS (
        SELECT
            *,
            CASE
                WHEN sequence_count IS NULL THEN CAST(q[if(has_heads_last, -3, 3)] AS HUGEINT)
                WHEN sequence_count * TRY_CAST(concrete[longest_place + 1] AS HUGEINT) = q[-3]
                THEN TRY_CAST(concrete[longest_place + 1] AS HUGEINT)
            END AS q_length,
            CASE
                WHEN has_used_lengths THEN NULL
                WHEN sequence_count IS NULL THEN CAST(k[if(has_heads_last, -3, 3)] AS HUGEINT)
                WHEN sequence_count * TRY_CAST(concrete[longest_place + 2] AS HUGEINT) = k[-3]
                THEN TRY_CAST(concrete[longest_place + 2] AS HUGEINT)
            END AS k_length,
            CAST(coalesce(sequence_count, q[1]) AS HUGEINT) * q[if(has_heads_last, -2, 2)] AS head_count,
            least(q_length, k_length) AS shorter
        FROM tensors
        WHERE len(q) = len(k) AND len(k) = len(v)
          AND (len(q) = 4 OR (len(q) = 3 AND sequence_count IS NOT NULL))
          AND (sequence_count IS NULL OR len(q) = 3 OR q[1] = 1)
    ),
    pairs AS (
        SELECT
            *,
            head_count * q_length * k_length AS all_pairs,
            CASE
                WHEN has_window OR q_length IS NULL OR k_length IS NULL THEN NULL
                WHEN mask_kind = 'none' THEN head_count * q_length * k_length
                WHEN mask_kind = 'lower right'
                THEN head_count * (shorter * k_length - shorter * (shorter - 1) // 2)
                WHEN mask_kind = 'upper left'
                THEN head_count * (shorter * (shorter + 1) // 2 + (q_length - shorter) * k_length)
            END AS allowed_pairs,
            -- Of an unknown mask the fewest: a causal one; of a window none, as its length may be any.
            CASE
                WHEN allowed_pairs IS NOT NULL THEN allowed_pairs
                WHEN has_window THEN 0
                ELSE head_count * least(
                    shorter * k_length - shorter * (shorter - 1) // 2,
                    shorter * (shorter + 1) // 2 + (q_length - shorter) * k_length
                )
            END AS fewest_pairs,
            if(is_backward, 3, 1) * q[-1] + if(is_backward, 2, 1) * v[-1] AS executed_length,
            if(is_backward, 2, 1) * q[-1] + if(is_backward, 2, 1) * v[-1] AS once_length,
            CAST(element_count(q) * q_bytes + element_count(k) * k_bytes + element_count(v) * v_bytes AS HUGEINT) AS inputs_size,
            CAST(element_count(q) AS HUGEINT) // nullif(q[-1], 0) * v[-1] * q_bytes AS output_size
        FROM sizes
    )
    SELECT
        signature_id,
        CAST(2 * allowed_pairs * executed_length AS HUGEINT) AS flops,
        CAST(2 * all_pairs * executed_length AS HUGEINT) AS flops_unmasked,
        CAST(2 * allowed_pairs * once_length AS HUGEINT) AS once_flops,
        CAST(2 * fewest_pairs * executed_length AS HUGEINT) AS flops_least,
        CAST(2 * fewest_pairs * once_length AS HUGEINT) AS once_flops_least,
        CAST(2 * coalesce(allowed_pairs, all_pairs) * once_length AS HUGEINT) AS once_flops_most,
        CAST(
            if(is_backward, 2, 1) * (inputs_size + output_size)
            + coalesce(
                CASE
                    WHEN types[bias_place + 1] <> ''
                    THEN element_count(shapes[bias_place + 1]) * type_bytes[bias_place + 1]
                END,
                0
            )
            AS HUGEINT
        ) AS size_bytes,
        size_bytes AS stored_bytes
    FROM pairs
);
