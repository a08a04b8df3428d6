-- Complete events on host threads. Arguments are read as texts: one that is there and yet no number is lost, and counted.
WITH parsed AS (
    SELECT
        *,
        CASE
            WHEN category NOT IN ('python', 'overhead')
            THEN from_json(
                args,
                '{"correlation": "VARCHAR", "correlation_id": "VARCHAR", "External id": "VARCHAR",
                  "Sequence number": "VARCHAR", "Fwd thread id": "VARCHAR", "Input Dims": "VARCHAR", "Index": "VARCHAR",
                  "corr_id": "VARCHAR"}'
            )
        END AS known,
        CASE
            WHEN category = 'python'
            THEN from_json(args, '{"Python id": "VARCHAR", "Python parent id": "VARCHAR"}')
        END AS frame
    FROM chunk
    WHERE class = 'host' AND loss IS NULL
),
completed AS (
    SELECT
        *,
        CASE
            WHEN category NOT IN ('python', 'overhead') THEN coalesce(known."External id", args ->> '$."external id"')
        END AS external_text,
        CASE WHEN category = 'cpu_op' THEN coalesce(known."Input Dims", args ->> '$."Input dims"') END AS shapes_text
    FROM parsed
),
typed AS (
    SELECT
        *,
        CASE
            WHEN known.correlation IS NOT NULL THEN known.correlation
            WHEN category = 'driver' THEN known.correlation_id
            WHEN category = 'runtime' AND raw_category IS NULL THEN coalesce(known.correlation_id, known."Index")
            WHEN category IN ('runtime', 'driver') THEN known.corr_id
        END AS correlation_text,
        TRY_CAST(correlation_text AS BIGINT) AS recorded_correlation,
        known_id(recorded_correlation) AS correlation,
        TRY_CAST(external_text AS BIGINT) AS external_id,
        TRY_CAST(known."Sequence number" AS BIGINT) AS sequence,
        TRY_CAST(known."Fwd thread id" AS BIGINT) AS forward_thread,
        CASE WHEN starts_with(shapes_text, '[') THEN shapes_text END AS input_shapes
    FROM completed
)
SELECT
    $base + position AS event_id,
    pid, tid, category, raw_category, name, start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    correlation, external_id, sequence,
    nullif(forward_thread, 0) AS forward_thread,
    input_shapes,
    TRY_CAST(frame."Python id" AS BIGINT) AS frame_id,
    TRY_CAST(frame."Python parent id" AS BIGINT) AS caller_id,
    is_id_lost(correlation_text, recorded_correlation) + is_id_lost(external_text, external_id)
        + is_lost(known."Sequence number", sequence) + is_lost(known."Fwd thread id", forward_thread)
        + is_lost(shapes_text, input_shapes) AS lost_values
FROM typed;
