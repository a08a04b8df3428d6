-- Moves of managed memory, and page faults, which are recorded with --cuda-um-cpu-page-faults and --cuda-um-gpu-page-faults.
-- A move that names no device is on that of its context, as its copy is.
WITH homes AS (
    SELECT context, min(device) AS device
    FROM gpu_contexts
    GROUP BY context
    HAVING min(device) = max(device)
)
SELECT
    event_id,
    'move' AS kind,
    coalesce(CASE WHEN deviceId >= 0 THEN deviceId END, homes.device)::INTEGER AS device,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns,
    CASE copyKind WHEN 11 THEN 'HtoD' WHEN 12 THEN 'DtoH' ELSE 'DtoD' END AS copy_kind,
    migration_cause(migrationCause) AS cause,
    bytes AS size_bytes, NULL::BIGINT AS fault_count, NULL::VARCHAR AS function
FROM managed_moves
LEFT JOIN homes ON homes.context = contextId
WHERE belongs(globalPid)
UNION ALL
SELECT
    event_id,
    'gpu_fault',
    CASE WHEN deviceId >= 0 THEN deviceId END::INTEGER,
    start + getvariable('base_ns'),
    "end" - start,
    NULL, NULL, NULL, numberOfPageFaults, NULL
FROM gpu_page_fault
WHERE belongs(globalPid)
UNION ALL
SELECT event_id, 'cpu_fault', NULL, start + getvariable('base_ns'), 0, NULL, NULL, NULL, NULL, value
FROM cpu_page_fault
LEFT JOIN strings ON id = CpuInstruction
WHERE belongs(globalPid)
ORDER BY event_id;
