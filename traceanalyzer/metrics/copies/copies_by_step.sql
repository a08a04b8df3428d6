-- One row per device, step and kind of copy or memset: how often, how many bytes, how long, and how long compute waited.
--
-- Plain sums: copies that run at the same time both count in full. A copy belongs to the step in which it starts (see
-- gpu_op_steps).
--
-- columns: trace, rank, device
--   step                  BIGINT   step of the device; NULL: outside steps
--   kept                  BOOLEAN  in the analysis window
--   name                  VARCHAR  copy or memset, as written
--   call_count            BIGINT   copies
--   size_bytes            BIGINT   bytes of the copies whose size is known; NULL: of none
--   sized_count           BIGINT   copies whose size is known
--   sum_ns                BIGINT   sum of durations
--   max_ns                BIGINT   longest
--   bandwidth_bytes_per_s DOUBLE   size_bytes / time of the copies whose size is known; NULL: no time or no bytes were recorded
--   idle_ns               BIGINT   time without compute that the ledger charges to the copy (ledger_rows.blame_id)
WITH charged AS (
    SELECT trace_id, blame_id AS op_id, sum(dur_ns) AS idle_ns
    FROM attribution.ledger_rows
    WHERE blame_kind = 'op' AND bucket <> 'compute'
    GROUP BY trace_id, blame_id
)
SELECT
    trace, rank, ops.device, step, kept, ops.name,
    count(*) AS call_count,
    TRY_CAST(sum(ops.size_bytes) AS BIGINT) AS size_bytes,
    count(ops.size_bytes) AS sized_count,
    CAST(sum(ops.dur_ns) AS BIGINT) AS sum_ns,
    max(ops.dur_ns) AS max_ns,
    sum(ops.size_bytes) * 1e9 / nullif(sum(ops.dur_ns) FILTER (WHERE ops.size_bytes IS NOT NULL), 0) AS bandwidth_bytes_per_s,
    CAST(coalesce(sum(idle_ns), 0) AS BIGINT) AS idle_ns
FROM gpu_ops AS ops
JOIN gpu_op_steps USING (trace_id, op_id)
JOIN canonical.traces USING (trace_id)
LEFT JOIN charged USING (trace_id, op_id)
WHERE ops.kind IN ('memcpy', 'memset')
GROUP BY ops.trace_id, trace, rank, ops.device, step, kept, ops.name
ORDER BY ops.trace_id, ops.device, step, kept, sum_ns DESC, ops.name
