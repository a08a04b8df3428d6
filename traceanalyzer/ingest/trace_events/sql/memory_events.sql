-- Allocator events: instants named [memory] and [OutOfMemory].
WITH parsed AS (
    SELECT
        *,
        from_json(
            args,
            '{"Addr": "BIGINT", "Bytes": "BIGINT", "Total Allocated": "BIGINT", "Total Reserved": "BIGINT",
              "Device Type": "INTEGER", "Device Id": "INTEGER"}'
        ) AS known
    FROM read_parquet($other)
    WHERE phase IN ('i', 'I', 'R') AND name IN ('[memory]', '[OutOfMemory]')
)
SELECT
    event_id,
    thread_id,
    start_ns + $base_ns AS start_ns,
    CASE
        WHEN name = '[OutOfMemory]' THEN 'oom'
        WHEN known.Bytes < 0 THEN 'free'
        ELSE 'alloc'
    END AS kind,
    known."Device Type" AS device_type,
    known."Device Id" AS device,
    known.Addr AS address,
    at_most(known.Bytes, 17592186044416) AS size_bytes,
    at_most(known."Total Allocated", 17592186044416) AS allocated_bytes,
    at_most(known."Total Reserved", 17592186044416) AS reserved_bytes
FROM parsed
JOIN threads ON threads.pid IS NOT DISTINCT FROM parsed.pid AND threads.tid IS NOT DISTINCT FROM parsed.tid;
