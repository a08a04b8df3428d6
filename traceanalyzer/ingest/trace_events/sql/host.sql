-- Complete events on host threads.
WITH parsed AS (
    SELECT
        *,
        CASE
            WHEN category NOT IN ('python', 'overhead')
            THEN from_json(
                args,
                '{"correlation": "BIGINT", "External id": "BIGINT", "Sequence number": "BIGINT", "Fwd thread id": "BIGINT",
                "Input Dims": "VARCHAR"}'
            )
        END AS known
    FROM chunk
    WHERE class = 'host' AND loss IS NULL
)
SELECT
    $base + position AS event_id,
    pid,
    tid,
    category,
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
    nullif(known."Fwd thread id", 0) AS forward_thread,
    CASE WHEN category = 'cpu_op' THEN coalesce(known."Input Dims", args ->> '$."Input dims"') END AS input_shapes
FROM parsed;
