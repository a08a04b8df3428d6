-- Every timed event that is neither a host slice nor GPU work, and the naming events, as written.
SELECT
    $base + chunk.rowid AS event_id,
    CASE WHEN phase = 'X' THEN class END AS class,
    phase,
    raw_category,
    CASE WHEN phase = 'X' THEN category END AS category,
    name,
    pid,
    tid,
    start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    coalesce(id, bind_id) AS id,
    id2,
    bp,
    scope,
    lower(flow_in) = 'true' AS flow_in,
    lower(flow_out) = 'true' AS flow_out,
    args
FROM chunk
LEFT JOIN categories ON raw = lower(raw_category)
WHERE phase = 'M'
    OR (
        start_ns IS NOT NULL
        AND (
            phase IN ('B', 'E', 'i', 'I', 'R', 'n', 'b', 'e', 'S', 'F', 's', 't', 'f', 'C')
            OR (phase = 'X' AND (class IN ('sync', 'async') OR bind_id IS NOT NULL) AND dur_ns <= 2592000000000000)
        )
    );
