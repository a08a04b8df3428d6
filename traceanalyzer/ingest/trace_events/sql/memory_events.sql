-- Allocator events: instants named [memory] and [OutOfMemory], and how many of the values of each are lost.
WITH parsed AS (
    SELECT
        *,
        from_json(
            args,
            '{"Addr": "VARCHAR", "Bytes": "VARCHAR", "Total Allocated": "VARCHAR", "Total Reserved": "VARCHAR",
              "Device Type": "VARCHAR", "Device Id": "VARCHAR"}'
        ) AS known
    FROM read_parquet($other)
    WHERE phase IN ('i', 'I', 'R') AND name IN ('[memory]', '[OutOfMemory]')
)
SELECT
    event_id, thread_id,
    start_ns + $base_ns AS start_ns,
    CASE
        WHEN name = '[OutOfMemory]' THEN 'oom'
        WHEN TRY_CAST(known.Bytes AS BIGINT) < 0 THEN 'free'
        ELSE 'alloc'
    END AS kind,
    TRY_CAST(known."Device Type" AS INTEGER) AS device_type,
    TRY_CAST(known."Device Id" AS INTEGER) AS device,
    TRY_CAST(known.Addr AS BIGINT) AS address,
    memory_size(TRY_CAST(known.Bytes AS BIGINT)) AS size_bytes,
    memory_size(TRY_CAST(known."Total Allocated" AS BIGINT)) AS allocated_bytes,
    memory_size(TRY_CAST(known."Total Reserved" AS BIGINT)) AS reserved_bytes,
    name,
    is_lost(known.Addr, address) + is_lost(known.Bytes, size_bytes) + is_lost(known."Total Allocated", allocated_bytes)
        + is_lost(known."Total Reserved", reserved_bytes) + is_lost(known."Device Type", device_type)
        + is_lost(known."Device Id", device) AS lost
FROM parsed
JOIN threads ON threads.pid IS NOT DISTINCT FROM parsed.pid AND threads.tid IS NOT DISTINCT FROM parsed.tid
ORDER BY event_id;
