-- The facts of a chunk about the whole trace; facts known from earlier chunks are skipped.
SELECT
    count(*) AS event_count,
    count(*) FILTER (WHERE class = 'gpu' AND loss IS NULL) > 0 AS has_gpu_work,
    count(*) FILTER (WHERE loss <> 'empty') + count(*) FILTER (WHERE phase = 'X' AND dur_ns < 0)
        + count(*) FILTER (WHERE NOT starts_with(args, '{')) + count(*) FILTER (WHERE has_long_text) AS flawed_count,
    count(*) FILTER (
        WHERE $look_for_stacks
            AND (
                category = 'python'
                OR (category = 'cpu_op' AND contains(args, '"Call stack":"') AND NOT contains(args, '"Call stack":""'))
            )
    ) > 0 AS has_stacks
FROM chunk;
