-- Calls of one trace that return only after work that was launched before, as `device_check` wants them.
CREATE OR REPLACE TEMP TABLE device_waits AS
WITH records AS (
    SELECT correlationId AS correlation, any_value(nullif(streamId, 4294967295)) AS stream
    FROM sync
    WHERE belongs(globalPid)
    GROUP BY correlationId
),
only_device AS (
    SELECT any_value(device) AS device
    FROM device_work
    HAVING count(DISTINCT device) = 1
),
calls AS (
    SELECT
        only_device.device, records.stream, start_ns,
        start_ns + dur_ns AS end_ns,
        calls_to(name, 'wait for a device') AS is_of_device
    FROM read_parquet($slices) AS slices
    CROSS JOIN only_device
    LEFT JOIN records ON records.correlation = slices.correlation
    WHERE category IN ('runtime', 'driver')
        AND (calls_to(name, 'wait for a device') OR calls_to(name, 'wait for a stream'))
)
SELECT
    device,
    CASE WHEN NOT is_of_device THEN stream END AS stream,
    start_ns, end_ns
FROM calls
WHERE is_of_device
    OR stream IS NOT NULL;
