-- Complete events on host threads. GPU categories without a stream, device or correlation are no GPU work: other tools
-- use the same category names.
WITH parsed AS (
    SELECT
        chunk.rowid AS row_number,
        chunk.*,
        coalesce(class, 'host') AS class,
        coalesce(category, 'other') AS category,
        from_json(
            args,
            '{"correlation": "BIGINT", "External id": "BIGINT", "Sequence number": "BIGINT", "Fwd thread id": "BIGINT"}'
        ) AS known
    FROM chunk
    LEFT JOIN categories ON raw = lower(raw_category)
    WHERE phase = 'X'
        AND start_ns IS NOT NULL
        AND dur_ns <= 2592000000000000
)
SELECT
    $base + row_number AS event_id,
    pid,
    tid,
    CASE
        WHEN class = 'gpu' THEN 'other'
        WHEN category = 'cpu_op' AND regexp_matches(name, '^(ProfilerStep#|Optimizer\.|enumerate\(Data(Loader|Pipe)\)#)')
        THEN 'annotation'
        ELSE category
    END AS category,
    raw_category,
    name,
    start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    known.correlation AS correlation,
    CASE
        WHEN category IN ('python', 'overhead') THEN NULL
        ELSE coalesce(known."External id", TRY_CAST(args ->> '$."external id"' AS BIGINT))
    END AS external_id,
    known."Sequence number" AS sequence,
    nullif(known."Fwd thread id", 0) AS forward_thread
FROM parsed
WHERE class = 'host'
    OR (class = 'gpu' AND NOT regexp_matches(coalesce(args, '{}'), '"(stream|device|correlation)"'));
