-- Recorded synchronisations of one process. The API call gives the kind; for a record whose call lies outside the capture
-- the number does, with the meaning of the exporter's version.
WITH contexts AS (
    -- The device of a record is wrong in processes that use another device than 0; its context is right.
    SELECT context, any_value(device) AS device
    FROM gpu_contexts
    GROUP BY context
    HAVING count(DISTINCT device) = 1
),
records AS (
    SELECT globalPid, eventId, eventSyncId, streamId, correlationId, start_ns
    FROM cuda_event
    LEFT JOIN sync_calls ON sync_calls.scope = globalPid AND sync_calls.correlation = correlationId
),
numbered_records AS (
    SELECT globalPid, eventSyncId, any_value(streamId) AS stream, any_value(correlationId) AS correlation
    FROM records
    WHERE eventSyncId NOT IN (0, 4294967295)
    GROUP BY globalPid, eventSyncId
),
waits AS (
    SELECT
        sync.*,
        sync_calls.sync_kind,
        coalesce(sync_calls.start_ns, start + getvariable('base_ns')) AS asked_ns
    FROM sync
    LEFT JOIN sync_calls ON sync_calls.scope = globalPid AND sync_calls.correlation = correlationId
    WHERE belongs(globalPid)
),
handle_records AS (
    -- Before 2025 a wait names only the handle, which is reused: the wait is for the latest record before it.
    SELECT waits.event_id, records.streamId AS stream, records.correlationId AS correlation
    FROM waits
    ASOF JOIN records
        ON records.globalPid = waits.globalPid
        AND records.eventId = waits.eventId
        AND records.start_ns <= waits.asked_ns
    WHERE waits.eventSyncId IS NULL AND waits.eventId <> 4294967295
)
SELECT
    waits.event_id AS sync_id,
    coalesce(
        sync_kind,
        CASE
            WHEN getvariable('sync_numbering') = 'until 2024.5' THEN
                CASE syncType
                    WHEN 1 THEN 'device'
                    WHEN 2 THEN 'event'
                    WHEN 3 THEN if(waits.eventId = 4294967295, 'stream', 'stream_wait')
                END
            WHEN getvariable('sync_numbering') = '2024.6' THEN
                CASE syncType
                    WHEN 0 THEN 'device'
                    WHEN 1 THEN 'event'
                    WHEN 2 THEN if(waits.eventId = 4294967295, 'stream', 'stream_wait')
                END
            WHEN getvariable('sync_numbering') = '2025.1 to 2026.1' THEN
                CASE syncType
                    WHEN 1 THEN 'event'
                    WHEN 2 THEN if(waits.eventId = 4294967295, 'stream', 'stream_wait')
                    WHEN 3 THEN 'stream'
                    WHEN 4 THEN 'device'
                END
            ELSE
                CASE syncType
                    WHEN 1 THEN 'event'
                    WHEN 2 THEN 'stream_wait'
                    WHEN 3 THEN 'stream'
                    WHEN 4 THEN 'device'
                END
        END,
        'unknown'
    ) AS kind,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns,
    coalesce(contexts.device, deviceId)::INTEGER AS device,
    nullif(streamId, 4294967295) AS stream,
    CASE WHEN correlationId NOT IN (0, -1, 4294967295) THEN correlationId END AS correlation,
    coalesce(numbered_records.stream, handle_records.stream) AS wait_on_stream,
    coalesce(numbered_records.correlation, handle_records.correlation) AS wait_on_correlation,
    nullif(waits.eventId, 4294967295) AS event_id
FROM waits
LEFT JOIN contexts ON contexts.context = waits.contextId
LEFT JOIN numbered_records USING (globalPid, eventSyncId)
LEFT JOIN handle_records USING (event_id);
