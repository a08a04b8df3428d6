-- One row per device, step, collective and process group: how often, how many bytes, how long, and how long compute waited.
--
-- Sizes are those of collectives. The durations include the wait for the last rank to arrive. A collective belongs to the
-- step in which it starts (see gpu_op_steps).
--
-- columns: trace, rank, device
--   step            BIGINT   step of the device; NULL: outside steps
--   kept            BOOLEAN  in the analysis window
--   name            VARCHAR  kind of the collective (collectives.collective_kind)
--   group_desc      VARCHAR  process group description, else its name; NULL: not recorded
--   group_size      INTEGER  ranks of the group; NULL: not recorded
--   call_count      BIGINT   collectives
--   size_bytes      BIGINT   bytes; NULL: not recorded
--   sum_ns          BIGINT   sum of durations, including the wait for other ranks
--   max_ns          BIGINT   longest
--   bus_bytes_per_s DOUBLE   bus bandwidth over all of them, by duration; NULL: not recorded
--   idle_ns         BIGINT   time without compute that the ledger charges to the collective (ledger_rows.blame_id)
WITH charged AS (
    SELECT trace_id, blame_id AS op_id, sum(dur_ns) AS idle_ns
    FROM attribution.ledger_rows
    WHERE blame_kind = 'op' AND bucket <> 'compute'
    GROUP BY trace_id, blame_id
)
SELECT
    trace, rank, device, gpu_op_steps.step, kept, collective_kind AS name,
    coalesce(nullif(group_desc, ''), group_name) AS group_desc,
    group_size,
    count(*) AS call_count,
    TRY_CAST(sum(size_bytes) AS BIGINT) AS size_bytes,
    CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
    max(dur_ns) AS max_ns,
    sum(bus_bytes_per_s * dur_ns) / nullif(sum(dur_ns) FILTER (WHERE bus_bytes_per_s IS NOT NULL), 0) AS bus_bytes_per_s,
    CAST(coalesce(sum(idle_ns), 0) AS BIGINT) AS idle_ns
FROM collectives
JOIN gpu_op_steps USING (trace_id, op_id)
LEFT JOIN charged USING (trace_id, op_id)
GROUP BY ALL
ORDER BY trace, device, gpu_op_steps.step, kept, sum_ns DESC, name, group_desc, group_size
