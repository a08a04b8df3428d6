-- Recorded synchronisation: waits of the host or of a stream. Context and event records carry -1 as their stream.
WITH parsed AS (
    SELECT
        *,
        from_json(
            args,
            '{"device": "INTEGER", "stream": "BIGINT", "correlation": "BIGINT", "wait_on_stream": "BIGINT",
              "wait_on_cuda_event_record_corr_id": "BIGINT", "wait_on_cuda_event_id": "BIGINT"}'
        ) AS known
    FROM read_parquet($other)
    WHERE class = 'sync'
)
SELECT
    event_id AS sync_id,
    CASE
        WHEN name ILIKE '%stream%wait%' THEN 'stream_wait'
        WHEN name ILIKE '%stream%' THEN 'stream'
        WHEN name ILIKE '%event%' THEN 'event'
        ELSE 'device'
    END AS kind,
    start_ns + $base_ns AS start_ns,
    dur_ns,
    known.device AS device,
    CASE WHEN known.stream BETWEEN 0 AND 4294967294 THEN known.stream END AS stream,
    known.correlation AS correlation,
    CASE WHEN known.wait_on_stream BETWEEN 0 AND 4294967294 THEN known.wait_on_stream END AS wait_on_stream,
    nullif(known.wait_on_cuda_event_record_corr_id, 0) AS wait_on_correlation,
    known.wait_on_cuda_event_id AS event_id
FROM parsed
ORDER BY sync_id;
