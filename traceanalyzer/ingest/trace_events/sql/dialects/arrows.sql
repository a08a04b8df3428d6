-- The call that each arrow between host and device begins in, and the work that it ends at. An arrow begins at a time
-- within its call and ends at the start of its work. Where the file has whole microseconds only, so do its arrows, and
-- $unit is 1000. Arrows differ by their numbers and their categories, which name the rank where several ranks
-- are in a file. Several arrows that end at one time of a lane belong to the works there in their order.
CREATE OR REPLACE TABLE links AS
WITH begins AS (
    SELECT
        struct_pack(id := coalesce(id, id2 ->> '$.local', id2 ->> '$.global'), category := raw_category) AS flow,
        pid, tid, start_ns
    FROM read_parquet($other)
    WHERE phase = 's' AND starts_with(coalesce(raw_category, ''), $arrow)
),
calls AS (
    SELECT event_id, pid, tid, start_ns, start_ns + dur_ns AS end_ns
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver')
),
launching AS (
    SELECT begins.flow, calls.event_id AS call_id
    FROM begins
    ASOF JOIN calls
        ON calls.pid = begins.pid
        AND calls.tid = begins.tid
        AND begins.start_ns // $unit * $unit + $unit - 1 >= calls.start_ns
    WHERE begins.start_ns // $unit <= calls.end_ns // $unit
    QUALIFY row_number() OVER (PARTITION BY begins.flow ORDER BY begins.start_ns, calls.event_id) = 1
),
ends AS (
    SELECT
        struct_pack(id := coalesce(id, id2 ->> '$.local', id2 ->> '$.global'), category := raw_category) AS flow,
        pid, tid,
        start_ns // $unit AS instant,
        row_number() OVER (PARTITION BY pid, tid, start_ns // $unit ORDER BY event_id) AS nth
    FROM read_parquet($other)
    WHERE phase IN ('t', 'f') AND starts_with(coalesce(raw_category, ''), $arrow)
),
works AS (
    SELECT
        event_id, pid, tid,
        start_ns // $unit AS instant,
        row_number() OVER (PARTITION BY pid, tid, start_ns // $unit ORDER BY event_id) AS nth
    FROM lanes
)
SELECT works.event_id, any_value(launching.call_id) AS call_id
FROM ends
JOIN works USING (pid, tid, instant, nth)
JOIN launching USING (flow)
GROUP BY works.event_id;
-- Calls are numbered by themselves, and so is what they launched.
UPDATE recast_host SET correlation = event_id
WHERE event_id IN (SELECT call_id FROM links) AND correlation IS NULL;
UPDATE recast_gpu SET correlation = calls.correlation
FROM links
JOIN recast_host AS calls ON calls.event_id = links.call_id
WHERE links.event_id = recast_gpu.event_id AND recast_gpu.correlation IS NULL;
