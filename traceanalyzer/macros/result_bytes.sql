-- The size of an element of an element-wise result by PyTorch's promotion: `inputs` are structs of shape, bytes, and kind
-- (0 boolean, 1 integer, 2 real, 3 complex). Tensors with dimensions come before those without, which decide only where
-- their kind is higher; `makes_real`: the operator turns integers into real numbers, of 4 bytes.
CREATE OR REPLACE MACRO result_bytes(inputs, types, makes_real) AS
    CASE
        WHEN makes_real AND coalesce(list_max([input.kind FOR input IN inputs]), 0) < 2 THEN 4
        WHEN coalesce(list_max([input.kind FOR input IN inputs IF len(input.shape) = 0]), -1)
            > coalesce(list_max([input.kind FOR input IN inputs IF len(input.shape) > 0]), -1)
         AND coalesce(list_max([len(input.shape) FOR input IN inputs]), 0) > 0
        -- A Python number is written as a double without dimensions, and becomes a real number of 4 bytes.
        THEN least(
            list_max([input.bytes FOR input IN inputs IF len(input.shape) = 0]),
            if(list_max([input.kind FOR input IN inputs]) = 2, 4, 16)
        )
        WHEN list_contains(types, 'c10::Half') AND list_contains(types, 'c10::BFloat16')
         AND list_max([input.bytes FOR input IN inputs IF input.kind = 2 AND len(input.shape) > 0]) = 2
        THEN 4
        ELSE list_max([
            input.bytes FOR input IN inputs
            IF (len(input.shape) > 0) = (list_max([len(other.shape) FOR other IN inputs]) > 0)
            AND input.kind = list_max([
                other.kind FOR other IN inputs
                IF (len(other.shape) > 0) = (list_max([len(another.shape) FOR another IN inputs]) > 0)
            ])
        ])
    END;
