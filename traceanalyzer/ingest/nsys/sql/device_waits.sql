-- Calls of one trace that return only after work that was launched before, as `device_check` wants them. A call that waits
-- for an event waits for what was launched on a stream before the call that recorded it. An event of the null stream waits
-- for all streams that do not opt out, unless each thread has a null stream of its own.
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
names AS MATERIALIZED (
    -- Few names are different, and rows are many.
    SELECT
        name,
        calls_to(name, 'wait for a device') AS is_of_device,
        calls_to(name, 'wait for a stream') AS is_of_stream,
        calls_to(name, 'wait for an event') AS is_of_event
    FROM (SELECT DISTINCT name FROM read_parquet($slices) WHERE category IN ('runtime', 'driver'))
),
calls AS (
    SELECT
        only_device.device, records.stream, start_ns,
        start_ns + dur_ns AS end_ns,
        is_of_device
    FROM read_parquet($slices) AS slices
    JOIN names ON names.name = slices.name AND (is_of_device OR is_of_stream)
    CROSS JOIN only_device
    LEFT JOIN records ON records.correlation = slices.correlation
    WHERE category IN ('runtime', 'driver')
),
event_records AS (
    SELECT globalPid, eventSyncId, any_value(streamId) AS stream, any_value(correlationId) AS correlation
    FROM cuda_event
    WHERE belongs(globalPid)
        AND eventSyncId NOT IN (0, 4294967295)
        AND (SELECT count(*) FROM gpu_contexts) = 1
    GROUP BY globalPid, eventSyncId
    HAVING count(*) = 1
),
event_waits AS (
    SELECT
        only_device.device, event_records.globalPid, event_records.stream, recording.start_ns,
        waiting.start_ns + waiting.dur_ns AS end_ns,
        contains(recording.name, 'ptsz') AS is_of_thread
    FROM sync
    JOIN event_records USING (globalPid, eventSyncId)
    JOIN read_parquet($slices) AS recording ON recording.correlation = event_records.correlation
    JOIN read_parquet($slices) AS waiting ON waiting.correlation = sync.correlationId
    JOIN names ON names.name = waiting.name AND is_of_event
    CROSS JOIN only_device
),
streams AS (
    SELECT DISTINCT processId, streamId, flag
    FROM cuda_stream
)
SELECT
    device,
    CASE WHEN NOT is_of_device THEN stream END AS stream,
    start_ns, end_ns
FROM calls
WHERE is_of_device OR stream IS NOT NULL
UNION ALL
SELECT device, stream, start_ns, end_ns
FROM event_waits
UNION ALL
SELECT waits.device, others.streamId, waits.start_ns, waits.end_ns
FROM event_waits AS waits
JOIN streams AS null_stream
    ON null_stream.processId = (waits.globalPid >> 24 & 16777215)
    AND null_stream.streamId = waits.stream
    AND null_stream.flag = 3 -- CUPTI_ACTIVITY_STREAM_CREATE_FLAG_NULL
JOIN streams AS others ON others.processId = null_stream.processId AND others.flag = 1 -- …_FLAG_DEFAULT
WHERE NOT waits.is_of_thread;
