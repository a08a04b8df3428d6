-- How many values of synchronisations, allocator events, async events and flows are lost, and the name of the first event
-- that lost one. The numbers are those of `syncs` and `memory_events`.
WITH known_syncs AS (
    SELECT
        event_id, name,
        from_json(
            args,
            '{"device": "VARCHAR", "stream": "VARCHAR", "correlation": "VARCHAR", "wait_on_stream": "VARCHAR",
              "wait_on_cuda_event_record_corr_id": "VARCHAR", "wait_on_cuda_event_id": "VARCHAR"}'
        ) AS known
    FROM read_parquet($other)
    WHERE class = 'sync'
),
known_memory_events AS (
    SELECT
        event_id, name,
        from_json(
            args,
            '{"Addr": "VARCHAR", "Bytes": "VARCHAR", "Total Allocated": "VARCHAR", "Total Reserved": "VARCHAR",
              "Device Type": "VARCHAR", "Device Id": "VARCHAR"}'
        ) AS known
    FROM read_parquet($other)
    WHERE phase IN ('i', 'I', 'R') AND name IN ('[memory]', '[OutOfMemory]')
),
counted AS (
    SELECT
        event_id, name,
        is_lost(known.device, TRY_CAST(known.device AS INTEGER))
            + is_lost(known.stream, stream_or_none(TRY_CAST(known.stream AS BIGINT)))
            + is_id_lost(known.correlation, TRY_CAST(known.correlation AS BIGINT))
            + is_lost(known.wait_on_stream, stream_or_none(TRY_CAST(known.wait_on_stream AS BIGINT)))
            + is_id_lost(
                known.wait_on_cuda_event_record_corr_id, TRY_CAST(known.wait_on_cuda_event_record_corr_id AS BIGINT)
            )
            + is_lost(known.wait_on_cuda_event_id, TRY_CAST(known.wait_on_cuda_event_id AS BIGINT)) AS lost
    FROM known_syncs
    UNION ALL
    SELECT
        event_id, name,
        is_lost(known.Addr, TRY_CAST(known.Addr AS BIGINT))
            + is_lost(known.Bytes, memory_size(TRY_CAST(known.Bytes AS BIGINT)))
            + is_lost(known."Total Allocated", memory_size(TRY_CAST(known."Total Allocated" AS BIGINT)))
            + is_lost(known."Total Reserved", memory_size(TRY_CAST(known."Total Reserved" AS BIGINT)))
            + is_lost(known."Device Type", TRY_CAST(known."Device Type" AS INTEGER))
            + is_lost(known."Device Id", TRY_CAST(known."Device Id" AS INTEGER)) AS lost
    FROM known_memory_events
    UNION ALL
    SELECT event_id, name, is_lost(id2, coalesce(id2 ->> '$.global', id2 ->> '$.local')) + lost_flows AS lost
    FROM read_parquet($other)
    WHERE id2 IS NOT NULL OR lost_flows > 0
)
SELECT
    CAST(coalesce(sum(lost), 0) AS BIGINT) AS lost_count,
    arg_min(name, event_id) FILTER (WHERE lost > 0) AS example
FROM counted;
