-- The events with deviations switched on, in nanoseconds.
-- HTA adds start and duration as doubles of microseconds before it rounds; so does this.
CREATE OR REPLACE TEMP TABLE deviating AS
SELECT
    CASE WHEN $devices THEN 0 ELSE device END AS device,
    stream,
    call_id,
    name,
    CASE WHEN $names OR source <> 'gpu' THEN peer_kind ELSE kind END AS kind,
    CASE WHEN $apis THEN in_statistics ELSE source = 'gpu' AND is_linked END AS in_statistics,
    CASE WHEN $apis THEN in_queue ELSE source = 'gpu' AND is_linked END AS in_queue,
    CASE WHEN $rounding THEN 1000 * CAST(ceil(start_us) AS BIGINT) ELSE start_ns END AS start_ns,
    CASE WHEN $rounding THEN 1000 * CAST(floor(start_us + dur_ns / 1000) AS BIGINT) ELSE start_ns + dur_ns END AS end_ns,
    CASE WHEN $rounding THEN 1000 * CAST(ceil(call_start_us) AS BIGINT) ELSE call_start_ns END AS call_start_ns,
    CASE
        WHEN $rounding THEN 1000 * CAST(floor(call_start_us + call_dur_ns / 1000) AS BIGINT)
        ELSE call_start_ns + call_dur_ns
    END AS call_end_ns
FROM (
    SELECT
        *,
        start_ns // 1000 + (start_ns % 1000) / 1000 AS start_us,
        call_start_ns // 1000 + (call_start_ns % 1000) / 1000 AS call_start_us
    FROM peer_events
) AS events
WHERE (source = 'gpu' OR source = 'sync' AND $syncs OR source = 'host_op' AND $host_ops)
  AND (is_linked OR NOT $linked)
