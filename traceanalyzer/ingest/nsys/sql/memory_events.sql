-- Memory allocated and freed through the driver (recorded with --cuda-memory-usage=true). Allocators between the driver
-- and the program are not recorded, so totals stay unknown.
SELECT
    event_id, NULL AS thread_id,
    start + getvariable('base_ns') AS start_ns,
    if(memoryOperationType = 1, 'free', 'alloc') AS kind,
    if(memKind IN (0, 1), 0, 1)::INTEGER AS device_type,
    if(memKind IN (0, 1), -1, deviceId)::INTEGER AS device,
    address,
    if(memoryOperationType = 1, -bytes, bytes) AS size_bytes
FROM memory_usage
WHERE belongs(globalPid);
