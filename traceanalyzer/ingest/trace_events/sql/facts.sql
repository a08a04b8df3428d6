-- What a chunk tells about the whole trace; what was found before is not looked for again.
SELECT
    count(*) AS event_count,
    count(*) FILTER (WHERE loss <> 'empty') + count(*) FILTER (WHERE phase = 'X' AND dur_ns < 0) AS flawed_count,
    count(*) FILTER (
        WHERE $look_for_shapes AND category = 'cpu_op' AND (contains(args, '"Input Dims":[[') OR contains(args, '"Input dims":[['))
    ) > 0 AS has_shapes,
    count(*) FILTER (
        WHERE $look_for_stacks
            AND (
                category = 'python'
                OR (
                    category = 'cpu_op'
                    AND contains(args, '"Call stack":"')
                    AND NOT contains(args, '"Call stack":""')
                )
            )
    ) > 0 AS has_stacks
FROM chunk;
