-- Calls that return only after work that was launched before, as `device_check` wants them. Which stream a call waits for,
-- its record says, or the copy to the host in the same operator, which reads back what it copied. A call waits for a device,
-- which is that of the record, or the only one. One that waits for an event waits for what was launched on the event's stream
-- before the call that recorded it. Where events of several files are read together, the number of the file
-- stands above 32 bits of ids and 12 bits of devices.
CREATE OR REPLACE TEMP TABLE device_waits AS
WITH waits AS MATERIALIZED (
    -- The words of all calls that wait: DuckDB looks for them once a distinct name, and for patterns in every row.
    SELECT event_id, name, correlation, external_id, start_ns, dur_ns
    FROM read_parquet($host)
    WHERE category IN ('runtime', 'driver')
        AND (contains(name, 'Sync') OR contains(name, 'Finish') OR contains(name, 'Wait'))
),
records AS (
    SELECT
        TRY_CAST(args ->> '$.correlation' AS BIGINT) | (event_id >> 32 << 32) AS correlation,
        any_value(TRY_CAST(args ->> '$.device' AS INTEGER) + (event_id >> 32 << 12)) AS device,
        any_value(stream_number(TRY_CAST(args ->> '$.stream' AS BIGINT))) AS stream,
        any_value(stream_number(TRY_CAST(args ->> '$.wait_on_stream' AS BIGINT))) AS event_stream,
        any_value(TRY_CAST(args ->> '$.wait_on_cuda_event_record_corr_id' AS BIGINT) | (event_id >> 32 << 32)) AS recorded_by
    FROM read_parquet($other)
    WHERE class = 'sync'
        AND (event_id < 4294967296 OR TRY_CAST(args ->> '$.correlation' AS BIGINT) BETWEEN 0 AND 4294967295)
    GROUP BY ALL
),
only_device AS (
    SELECT op_id >> 32 AS file, any_value(device) AS device
    FROM device_work
    GROUP BY file
    HAVING count(DISTINCT device) = 1
),
read_backs AS (
    SELECT
        event_id >> 32 AS file, external_id,
        any_value(coalesce(device, 0)) AS device,
        any_value(stream) AS stream
    FROM read_parquet($gpu)
    WHERE kind = 'memcpy' AND copy_kind = 'DtoH' AND external_id > 0
    GROUP BY file, external_id
    HAVING count(*) = 1
),
calls AS (
    SELECT
        coalesce(only_device.device, records.device, read_backs.device) AS device,
        coalesce(records.stream, read_backs.stream) AS stream,
        start_ns,
        start_ns + dur_ns AS end_ns,
        calls_to(name, 'wait for a device') AS is_of_device
    FROM waits AS host
    LEFT JOIN records ON records.correlation = host.correlation
    LEFT JOIN only_device ON only_device.file = host.event_id >> 32
    LEFT JOIN read_backs ON read_backs.file = host.event_id >> 32 AND read_backs.external_id = host.external_id
    WHERE calls_to(name, 'wait for a device') OR calls_to(name, 'wait for a stream')
),
event_waits AS (
    SELECT
        only_device.device,
        records.event_stream AS stream,
        recording.start_ns,
        waiting.start_ns + waiting.dur_ns AS end_ns
    FROM records
    JOIN read_parquet($host) AS recording
      ON recording.correlation = records.recorded_by
     AND contains(recording.name, 'EventRecord')
    JOIN waits AS waiting
      ON waiting.correlation = records.correlation
     AND waiting.event_id >> 32 = recording.event_id >> 32
     AND calls_to(waiting.name, 'wait for an event')
    -- The record names the device of the call, and the stream is of the event's.
    JOIN only_device ON only_device.file = waiting.event_id >> 32
    WHERE records.event_stream IS NOT NULL
)
SELECT
    device,
    CASE WHEN NOT is_of_device THEN stream END AS stream,
    start_ns, end_ns
FROM calls
WHERE is_of_device
    OR stream IS NOT NULL
UNION ALL
FROM event_waits;
