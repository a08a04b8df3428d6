-- What a chunk tells about the whole trace.
SELECT
    count(*) AS event_count,
    max(abs(start_us)) AS largest_us,
    coalesce(bool_or(contains(args, '"Input Dims":[[') OR contains(args, '"Input dims":[[')), false) AS has_shapes,
    coalesce(
        bool_or(
            raw_category = 'python_function'
            OR (contains(args, '"Call stack":"') AND NOT contains(args, '"Call stack":""'))
        ),
        false
    ) AS has_stacks
FROM chunk;
