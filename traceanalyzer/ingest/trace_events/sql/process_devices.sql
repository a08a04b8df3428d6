-- The device of each process that stands for one, and the first and last place of its work.
SELECT
    pid,
    min(TRY_CAST(args ->> '$.device' AS BIGINT)) AS device,
    max(TRY_CAST(args ->> '$.device' AS BIGINT)) AS last_device,
    min(event_id) AS first_id,
    max(event_id) AS last_id
FROM read_parquet($gpu_events)
GROUP BY pid;
