-- The values of rows beyond the columns of their tables, except for operators that have only shapes: those are written
-- with their slices. json_merge_patch leaves out unknown values.
WITH domains AS (
    SELECT globalTid & -16777216 AS scope, domainId, any_value(coalesce(nullif(text, ''), value)) AS name
    FROM nvtx_other
    LEFT JOIN strings ON id = textId
    WHERE eventType = 75
    GROUP BY ALL
),
inferred_domains AS (
    -- A capture that begins late lacks the creation of the domain; the names of NCCL's ranges identify it.
    SELECT globalTid & -16777216 AS scope, domainId, 'NCCL' AS name
    FROM nvtx_details
    LEFT JOIN strings ON id = textId
    WHERE domainId <> 0
    GROUP BY ALL
    HAVING bool_or(coalesce(nullif(text, ''), value) SIMILAR TO 'nccl[A-Z].*')
),
ranges AS (
    SELECT
        event_id, globalTid,
        {
            'domain': coalesce(domains.name, inferred_domains.name),
            'domain_id': nullif(nvtx_details.domainId, 0),
            'category': nullif(category, 0),
            'range_id': rangeId,
            'end_thread': endGlobalTid & 16777215,
            'value': coalesce(uint64Value, int64Value, uint32Value, int32Value, doubleValue, floatValue),
            'open': if(is_open, true, NULL)
        }::JSON AS args,
        coalesce(nullif(jsonText, ''), json_text.value) AS json,
        payload,
        coalesce(operator_args.args, '{}')::JSON AS operator_args
    FROM nvtx_details
    LEFT JOIN operator_args USING (event_id)
    LEFT JOIN domains ON domains.scope = globalTid & -16777216 AND domains.domainId = nvtx_details.domainId
    LEFT JOIN inferred_domains
        ON inferred_domains.scope = globalTid & -16777216
        AND inferred_domains.domainId = nvtx_details.domainId
    LEFT JOIN strings AS json_text ON json_text.id = jsonTextId
),
facts AS (
    SELECT
        event_id, globalTid AS owner,
        json_merge_patch(
            '{}',
            args, operator_args,
            json_object('payload', payload::JSON),
            json_object('json', if(json_valid(json), json::JSON, to_json(json)))
        ) AS args
    FROM ranges
    UNION ALL
    SELECT event_id, globalTid, json_object('returnValue', returnValue) FROM failed_calls
    UNION ALL
    SELECT
        event_id, globalTid,
        json_merge_patch(
            '{}',
            {'tag': tag, 'remote_rank': remoteRank, 'size': size, 'communicator': commHandle, 'request': requestHandle}::JSON
        )
    FROM mpi_p2p
    UNION ALL
    SELECT
        event_id, globalTid,
        json_merge_patch(
            '{}', {'root_rank': rootRank, 'size': size, 'receive_size': recvSize, 'communicator': commHandle}::JSON
        )
    FROM mpi_collective
    UNION ALL
    SELECT
        event_id, globalPid,
        json_merge_patch(
            '{}',
            {
                'launch_type': nullif(launchType, 1),
                'local_memory_per_thread': nullif(localMemoryPerThread, 0),
                'green_context': nullif(greenContextId, 0),
                'cluster': if(clusterX > 0, [clusterX, clusterY, clusterZ], NULL)
            }::JSON
        )
    FROM kernel_details
    UNION ALL
    SELECT
        event_id, globalTid,
        json_merge_patch('{}', {'thread_state': threadState, 'thread_block': threadBlock}::JSON)
    FROM sched_intervals
    WHERE isSchedIn = 0
        AND "end" IS NOT NULL
        -- State 0 is unknown.
        AND (threadState > 0 OR threadBlock > 0)
    UNION ALL
    SELECT event_id, globalPid, json_merge_patch('{}', json_object('syncType', syncType, 'eventSyncId', eventSyncId))
    FROM sync
    UNION ALL
    SELECT event_id, globalPid, json_object('faults', numberOfPageFaults, 'address', address, 'device', deviceId)
    FROM gpu_page_fault
)
SELECT event_id, args::VARCHAR AS args
FROM facts
WHERE belongs(owner) AND args <> '{}';
