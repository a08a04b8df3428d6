-- One row per device, kind of collective and power of two: how many messages of this size, and how long they took.
--
-- Latency dominates small messages: where there are many, buckets or fusion would help.
--
-- columns: trace, rank, device
--   collective_kind  VARCHAR  as in collectives
--   log2_bytes       INTEGER  the size is at least 2^this and less than twice that; NULL: unknown, or no bytes
--   message_count    BIGINT   communication kernels
--   size_bytes       BIGINT   their bytes, as in collectives
--   sum_ns           BIGINT   sum of their durations, waits for other ranks included
SELECT
    trace, rank, device, collective_kind,
    -- The number of binary digits: the logarithm of a number one below a power of two would round up to that power.
    CASE WHEN size_bytes > 0 THEN (len(ltrim(CAST(CAST(size_bytes AS BIT) AS VARCHAR), '0')) - 1)::INTEGER END AS log2_bytes,
    count(*) AS message_count,
    TRY_CAST(sum(size_bytes) AS BIGINT) AS size_bytes,
    CAST(sum(dur_ns) AS BIGINT) AS sum_ns
FROM collectives
GROUP BY trace_id, trace, rank, device, collective_kind, log2_bytes
ORDER BY trace_id, device, collective_kind, log2_bytes
