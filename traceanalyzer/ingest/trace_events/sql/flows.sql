-- Flow points: separate flow events, and slices that name a flow which they begin, pass on or end.
SELECT
    event_id, id AS flow_id, raw_category AS category, name,
    CASE
        WHEN phase <> 'X' THEN phase
        WHEN flow_in AND flow_out THEN 't'
        WHEN flow_in THEN 'f'
        ELSE 's'
    END AS phase,
    thread_id,
    start_ns + $base_ns AS start_ns,
    phase <> 'f' OR coalesce(bp, '') = 'e' AS binds_enclosing
FROM read_parquet($other) AS points
LEFT JOIN threads ON threads.pid IS NOT DISTINCT FROM points.pid AND threads.tid IS NOT DISTINCT FROM points.tid
WHERE phase IN ('s', 't', 'f')
    OR (phase = 'X' AND id IS NOT NULL AND (flow_in OR flow_out))
ORDER BY event_id;
