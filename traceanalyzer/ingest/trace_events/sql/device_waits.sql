-- Calls that return only after work that was launched before, as `device_check` wants them. Which stream a call waits for,
-- its record says; a call waits for a device, which is that of the record, or the only one.
CREATE OR REPLACE TEMP TABLE device_waits AS
WITH records AS (
    SELECT
        TRY_CAST(args ->> '$.correlation' AS BIGINT) AS correlation,
        any_value(TRY_CAST(args ->> '$.device' AS INTEGER)) AS device,
        any_value(stream_number(TRY_CAST(args ->> '$.stream' AS BIGINT))) AS stream
    FROM read_parquet($other)
    WHERE class = 'sync'
    GROUP BY ALL
),
only_device AS (
    SELECT any_value(device) AS device
    FROM device_work
    HAVING count(DISTINCT device) = 1
),
calls AS (
    SELECT
        coalesce(only_device.device, records.device) AS device,
        records.stream,
        start_ns,
        start_ns + dur_ns AS end_ns,
        regexp_matches(name, '^(cuda|hip)(Device|Thread)Synchronize|^cuCtxSynchronize') AS is_of_device
    FROM read_parquet($host) AS host
    LEFT JOIN records ON records.correlation = host.correlation
    LEFT JOIN only_device ON TRUE
    WHERE category IN ('runtime', 'driver')
        AND regexp_matches(name, '^(cuda|hip)(Device|Thread|Stream)Synchronize|^cu(Ctx|Stream)Synchronize')
)
SELECT
    device,
    CASE WHEN NOT is_of_device THEN stream END AS stream,
    start_ns,
    end_ns
FROM calls
WHERE is_of_device
    OR stream IS NOT NULL;
