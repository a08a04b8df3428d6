-- The processes that stand for a device in what XLA's profiler writes, each with the number of the device.
CREATE OR REPLACE TABLE device_tracks AS
SELECT
    pid,
    any_value(TRY_CAST(regexp_extract(args ->> '$.name', '/device:GPU:(\d+)', 1) AS INTEGER)) AS device
FROM read_parquet($other)
WHERE phase = 'M' AND name = 'process_name' AND regexp_matches(args ->> '$.name', '/device:GPU:\d+')
GROUP BY pid;
