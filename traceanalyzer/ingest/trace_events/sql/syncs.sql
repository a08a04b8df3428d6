-- Recorded synchronisation: waits of the host or of a stream, and how many of the values of each are lost. Context and
-- event records carry -1 as their stream.
WITH parsed AS (
    SELECT
        *,
        from_json(
            args,
            '{"device": "VARCHAR", "stream": "VARCHAR", "correlation": "VARCHAR", "wait_on_stream": "VARCHAR",
              "wait_on_cuda_event_record_corr_id": "VARCHAR", "wait_on_cuda_event_id": "VARCHAR"}'
        ) AS known
    FROM read_parquet($other)
    WHERE class = 'sync'
)
SELECT
    event_id AS sync_id,
    CASE
        WHEN name ILIKE '%stream%wait%' THEN 'stream_wait'
        WHEN name ILIKE '%append%' THEN 'stream_wait'  -- Level Zero: a barrier in a list of commands
        WHEN regexp_matches(name, '(?i)stream|commandlist|queue') THEN 'stream'
        WHEN name ILIKE '%event%' THEN 'event'
        ELSE 'device'
    END AS kind,
    start_ns + $base_ns AS start_ns,
    dur_ns,
    TRY_CAST(known.device AS INTEGER) AS device,
    stream_number(TRY_CAST(known.stream AS BIGINT)) AS stream,
    known_id(TRY_CAST(known.correlation AS BIGINT)) AS correlation,
    stream_number(TRY_CAST(known.wait_on_stream AS BIGINT)) AS wait_on_stream,
    known_id(TRY_CAST(known.wait_on_cuda_event_record_corr_id AS BIGINT)) AS wait_on_correlation,
    TRY_CAST(known.wait_on_cuda_event_id AS BIGINT) AS event_id,
    name,
    is_lost(known.device, TRY_CAST(known.device AS INTEGER))
        + is_lost(known.stream, stream_or_none(TRY_CAST(known.stream AS BIGINT)))
        + is_id_lost(known.correlation, TRY_CAST(known.correlation AS BIGINT))
        + is_lost(known.wait_on_stream, stream_or_none(TRY_CAST(known.wait_on_stream AS BIGINT)))
        + is_id_lost(
            known.wait_on_cuda_event_record_corr_id, TRY_CAST(known.wait_on_cuda_event_record_corr_id AS BIGINT)
        )
        + is_lost(known.wait_on_cuda_event_id, TRY_CAST(known.wait_on_cuda_event_id AS BIGINT)) AS lost
FROM parsed
ORDER BY sync_id;
