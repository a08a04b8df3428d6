-- Signatures of operator calls with their arguments read out of the texts in which profilers write them, once for all models:
-- `dims`, `types`, `concrete` and `strides` as lists of texts; `shapes`, and `type_bytes`, the size of an element, NULL for
-- what is no tensor or not known; `input_sizes`, bytes by shape and type, 0 for what is no tensor; and `expanded_sizes`, what
-- a shape has more bytes than memory holds, as a dimension that was expanded (stride 0) is stored once. `reads`, `writes`
-- and `mask_place` are those of operator_models.
CREATE OR REPLACE MACRO read_signatures(signatures) AS TABLE (
    WITH texts AS (
        SELECT
            row_number() OVER () AS signature_id,
            signatures.*,
            models.reads, models.writes, models.mask_place,
            json_extract(input_shapes, '$[*]') AS dims,
            type_names(input_types) AS types,
            json_extract_string(concrete_inputs, '$[*]') AS concrete,
            json_extract(input_strides, '$[*]') AS strides
        FROM query_table(signatures) AS signatures
        JOIN operator_models AS models USING (operator)
    ),
    tensors AS (
        SELECT
            *,
            -- Sparse tensors have no strides, and what they hold is not recorded.
            [if(strides[place + 1] = '[]' AND dims[place + 1] <> '[]', NULL, tensor_shape(dims, place)) FOR place IN range(len(dims))] AS shapes,
            [element_bytes(type_name) FOR type_name IN types] AS type_bytes
        FROM texts
    )
    SELECT
        *,
        types[list_position([size IS NOT NULL FOR size IN type_bytes], TRUE)] AS element_type,
        -- Types of numbers are written Scalar, and Int, Bool or Double by profilers of 2021.
        [
            CASE
                WHEN dims[place] = '[]' AND types[place] IN ('', 'Scalar', 'ScalarList', 'Int', 'Bool', 'Double', 'GenericList')
                THEN 0
                ELSE CAST(element_count(shapes[place]) AS HUGEINT) * type_bytes[place]
            END
            FOR place IN range(1, len(dims) + 1)
        ] AS input_sizes,
        [
            CASE
                WHEN strides IS NULL THEN 0
                ELSE type_bytes[place] * (
                    element_count(shapes[place]) - element_count([
                        if(coalesce(TRY_CAST(strides[place] AS BIGINT[])[axis], 1) = 0, 1, shapes[place][axis])
                        FOR axis IN range(1, len(shapes[place]) + 1)
                    ])
                )
            END
            FOR place IN range(1, len(dims) + 1)
        ] AS expanded_sizes
    FROM tensors
);
