-- The events of one chunk: position in it, what each is, and what is wrong with it. Times of over 30 days are no durations.
-- GPU categories without a stream, device or correlation are no GPU work, as other tools use the same category names;
-- unless the event has no arguments at all and its process is the number of a device, as in traces written by hand.
CREATE OR REPLACE TEMP TABLE chunk AS
WITH numbered AS (
    SELECT
        row_number() OVER () - 1 AS position,
        left(ph, 1) AS phase,
        *
    FROM events_of($path, $object_bytes)
)
SELECT
    position,
    phase,
    CASE
        WHEN phase <> 'X' THEN NULL
        WHEN class = 'gpu' AND is_foreign(args, pid) THEN 'host'
        ELSE coalesce(class, 'host')
    END AS class,
    CASE
        WHEN class = 'gpu' AND is_foreign(args, pid) THEN 'other'
        WHEN category = 'cpu_op' AND regexp_matches(name, '^(ProfilerStep#|Optimizer\.|enumerate\(Data(Loader|Pipe)\)#)')
        THEN 'annotation'
        ELSE coalesce(category, 'other')
    END AS category,
    cat AS raw_category,
    name,
    pid,
    tid,
    start_us,
    start_ns,
    dur_ns,
    coalesce(id, bind_id) AS id,
    id2,
    bp,
    s AS scope,
    bind_id IS NOT NULL AS binds,
    lower(flow_in) = 'true' AS flow_in,
    lower(flow_out) = 'true' AS flow_out,
    CASE WHEN args <> '{}' THEN args END AS args,
    CASE
        WHEN phase IS NULL AND coalesce(name, cat, pid, tid, CAST(args AS VARCHAR)) IS NULL THEN 'empty'
        WHEN phase IS NULL THEN 'missing-phase'
        WHEN phase NOT IN ('X', 'M', 'B', 'E', 'i', 'I', 'R', 'n', 'b', 'e', 'S', 'F', 's', 't', 'f', 'C')
        THEN 'unknown-phase'
        WHEN phase <> 'M' AND start_ns IS NULL THEN 'bad-timestamp'
        WHEN phase = 'X' AND (dur_ns IS NULL OR dur_ns > 2592000000000000) THEN 'bad-duration'
    END AS loss
FROM numbered
LEFT JOIN categories ON raw = lower(cat);
