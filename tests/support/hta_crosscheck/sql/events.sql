-- Every row that HTA takes for a GPU event: GPU work with the call that launched it, and what else has a stream.
CREATE OR REPLACE TEMP TABLE peer_events AS
SELECT
    ops.device,
    ops.stream,
    ops.name,
    CASE WHEN ops.is_comm THEN 'COMMUNICATION' WHEN ops.kind IN ('kernel', 'graph') THEN 'COMPUTATION' ELSE 'MEMORY' END AS kind,
    'gpu' AS source,
    calls.slice_id IS NOT NULL AS is_linked,
    calls.slice_id AS call_id,
    calls.name AS call_name,
    ops.start_ns - base_ns AS start_ns,
    ops.dur_ns AS dur_ns,
    calls.start_ns - base_ns AS call_start_ns,
    calls.dur_ns AS call_dur_ns
FROM (SELECT trace_id, coalesce(base_ns, 0) AS base_ns FROM canonical.traces WHERE trace_id = $trace_id) AS trace
JOIN gpu_ops AS ops USING (trace_id)
LEFT JOIN host_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
UNION ALL
SELECT
    coalesce(syncs.device, 0),
    TRY_CAST(args ->> '$.stream' AS BIGINT),
    -- The names that the profiler gives these records.
    CASE syncs.kind
        WHEN 'stream' THEN 'Stream Sync'
        WHEN 'event' THEN 'Event Sync'
        WHEN 'device' THEN 'Context Sync'
        ELSE 'Stream Wait Event'
    END,
    NULL,
    'sync',
    syncs.correlation IS NOT NULL,
    NULL,
    NULL,
    syncs.start_ns - base_ns,
    syncs.dur_ns,
    NULL,
    NULL
FROM (SELECT trace_id, coalesce(base_ns, 0) AS base_ns FROM canonical.traces WHERE trace_id = $trace_id) AS trace
JOIN syncs USING (trace_id)
JOIN event_args ON event_args.trace_id = syncs.trace_id AND event_args.event_id = syncs.sync_id
-- HTA knows host events by a stream of -1; where all streams are meant, some versions of the profiler write 2^32 - 1.
WHERE TRY_CAST(args ->> '$.stream' AS BIGINT) <> -1
UNION ALL
SELECT
    0,
    TRY_CAST(args ->> '$.stream' AS BIGINT),
    slices.name,
    NULL,
    'host_op',
    FALSE,
    NULL,
    NULL,
    slices.start_ns - base_ns,
    slices.dur_ns,
    NULL,
    NULL
FROM (SELECT trace_id, coalesce(base_ns, 0) AS base_ns FROM canonical.traces WHERE trace_id = $trace_id) AS trace
JOIN host_slices AS slices USING (trace_id)
JOIN event_args ON event_args.trace_id = slices.trace_id AND event_args.event_id = slices.slice_id
WHERE slices.category = 'cpu_op'
  AND contains(args, '"stream":')
  AND TRY_CAST(args ->> '$.stream' AS BIGINT) <> -1
