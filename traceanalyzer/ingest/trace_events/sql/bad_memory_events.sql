-- How many numbers of allocator events are lost, and the name of the first such event.
WITH parsed AS (
    SELECT
        event_id,
        name,
        args,
        from_json(args, '{"Bytes": "BIGINT", "Total Allocated": "BIGINT", "Total Reserved": "BIGINT"}') AS known
    FROM read_parquet($other)
    WHERE phase IN ('i', 'I', 'R') AND name IN ('[memory]', '[OutOfMemory]')
),
counted AS (
    SELECT
        event_id,
        name,
        lost_of(
            args,
            ['$.Bytes', '$."Total Allocated"', '$."Total Reserved"'],
            [
                at_most(known.Bytes, 17592186044416) IS NULL,
                at_most(known."Total Allocated", 17592186044416) IS NULL,
                at_most(known."Total Reserved", 17592186044416) IS NULL
            ]
        ) AS lost
    FROM parsed
)
SELECT
    CAST(coalesce(sum(lost), 0) AS BIGINT) AS lost_count,
    arg_min(name, event_id) FILTER (WHERE lost > 0) AS example
FROM counted;
