-- Least bytes of operators that read and write tensors of their inputs' sizes, from signatures as operator_costs reads
-- them: the inputs that operator_models says it reads, and those whose size its outputs have. Weight and bias that are not
-- given have no bytes; of gradients those that the mask asks for count. `stored_bytes` counts a dimension of what is read
-- that was expanded (stride 0) once. Their operations do not count.
CREATE OR REPLACE MACRO tensor_costs(signatures) AS TABLE (
    WITH placed AS (
        SELECT
            *,
            CAST(string_split(nullif(reads, ''), ',') AS INTEGER[]) AS read_places,
            CAST(string_split(writes, ',') AS INTEGER[]) AS write_places,
            CASE
                WHEN mask_place IS NOT NULL
                THEN [part = 'True' FOR part IN string_split(trim(concrete[mask_place + 1], '[]'), ', ')]
            END AS mask
        FROM query_table(signatures)
        WHERE writes IS NOT NULL
    ),
    sizes AS (
        SELECT
            *,
            coalesce([input_sizes[place + 1] FOR place IN read_places], []) AS read_sizes,
            [
                CASE
                    WHEN mask_place IS NULL OR mask[number] THEN input_sizes[write_places[number] + 1]
                    WHEN NOT mask[number] THEN 0
                END
                FOR number IN range(1, len(write_places) + 1)
            ] AS written_sizes,
            [expanded_sizes[place + 1] FOR place IN read_places] AS read_expanded_sizes
        FROM placed
        WHERE types IS NOT NULL
    )
    SELECT
        signature_id,
        CAST(
            CASE
                WHEN type_bytes[write_places[1] + 1] IS NOT NULL
                 AND NOT list_contains([size IS NULL FOR size IN read_sizes || written_sizes], TRUE)
                THEN list_sum(read_sizes || written_sizes)
            END
            AS HUGEINT
        ) AS size_bytes,
        CAST(size_bytes - coalesce(list_sum(read_expanded_sizes), 0) AS HUGEINT) AS stored_bytes
    FROM sizes
);
