-- One row per trace, device, direction and pair of memory kinds: copies, their bytes, time and bandwidth.
--
-- Bandwidth is all bytes divided by the summed time of the copies whose size is known, so long copies have more weight;
-- it is NULL where no time or no bytes were recorded. Copies of zero length count, and so do their bytes.
--
-- columns: trace, rank, device
--   copy_kind             VARCHAR  HtoD, DtoH, DtoD, PtoP, HtoH; NULL: unknown
--   src_kind              VARCHAR  kind of the source memory; NULL: not recorded
--   dst_kind              VARCHAR  kind of the destination memory; NULL: not recorded
--   copy_count            BIGINT   copies
--   size_bytes            BIGINT   bytes copied; NULL: not recorded
--   sum_ns                BIGINT   sum of durations
--   busy_ns               BIGINT   time in which a copy of the row runs
--   max_ns                BIGINT   longest copy
--   bandwidth_bytes_per_s DOUBLE   size_bytes / time of the copies whose size is known
WITH ops AS (
    SELECT
        {'trace_id': trace_id, 'device': device, 'copy_kind': copy_kind, 'src_kind': src_kind, 'dst_kind': dst_kind} AS key,
        start_ns,
        start_ns + dur_ns AS end_ns,
        size_bytes
    FROM gpu_ops
    WHERE kind = 'memcpy'
),
unions AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM interval_merge('ops')
    GROUP BY key
),
sums AS (
    SELECT
        key,
        count(*) AS copy_count,
        TRY_CAST(sum(size_bytes) AS BIGINT) AS size_bytes,
        CAST(sum(end_ns - start_ns) AS BIGINT) AS sum_ns,
        sum(end_ns - start_ns) FILTER (WHERE size_bytes IS NOT NULL) AS sized_ns,
        max(end_ns - start_ns) AS max_ns
    FROM ops
    GROUP BY key
)
SELECT
    trace, rank,
    sums.key.device AS device,
    sums.key.copy_kind AS copy_kind,
    sums.key.src_kind AS src_kind,
    sums.key.dst_kind AS dst_kind,
    copy_count, sums.size_bytes, sum_ns,
    coalesce(busy_ns, 0) AS busy_ns,
    max_ns,
    sums.size_bytes * 1e9 / nullif(sized_ns, 0) AS bandwidth_bytes_per_s
FROM sums
JOIN canonical.traces ON traces.trace_id = sums.key.trace_id
LEFT JOIN unions ON unions.key IS NOT DISTINCT FROM sums.key
ORDER BY traces.trace_id, device, sum_ns DESC, copy_kind, src_kind, dst_kind
