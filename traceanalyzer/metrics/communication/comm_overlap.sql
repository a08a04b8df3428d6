-- One row per communication kernel: how long compute kernels run beside it on its device, and how long none does.
--
-- Compute kernels are all kernels but communication. Exposed time is not a saving: the device may have had no other
-- work.
--
-- empty without: collectives
-- columns: trace, rank, device, trace_id
--   op_id            BIGINT   the kernel (gpu_ops.op_id)
--   collective_kind  VARCHAR  as in collectives
--   start_ns         BIGINT   start
--   dur_ns           BIGINT   duration
--   hidden_ns        BIGINT   part of it in which a compute kernel runs
--   exposed_ns       BIGINT   the rest
WITH compute AS (
    SELECT {'trace_id': trace_id, 'device': device} AS key, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.gpu_ops
    WHERE kind = 'kernel' AND NOT is_comm
),
islands AS (
    SELECT
        key.trace_id AS trace_id, key.device AS device, start_ns, end_ns,
        -- Compute time of the device before this stretch.
        coalesce(sum(end_ns - start_ns) OVER (
            PARTITION BY key.trace_id, key.device
            ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS before_ns
    FROM interval_merge('compute')
),
ends AS (
    SELECT kernels.*, start_ns + dur_ns AS end_ns
    FROM collectives AS kernels
)
SELECT
    ends.trace, ends.rank, ends.device, ends.trace_id, ends.op_id, ends.collective_kind, ends.start_ns,
    ends.dur_ns,
    CAST(
        coalesce(last.before_ns + least(ends.end_ns, last.end_ns) - last.start_ns, 0)
        - coalesce(first.before_ns + least(ends.start_ns, first.end_ns) - first.start_ns, 0)
        AS BIGINT
    ) AS hidden_ns,
    ends.dur_ns - hidden_ns AS exposed_ns
FROM ends
ASOF LEFT JOIN islands AS first
    ON first.trace_id = ends.trace_id AND first.device = ends.device AND first.start_ns <= ends.start_ns
ASOF LEFT JOIN islands AS last
    ON last.trace_id = ends.trace_id AND last.device = ends.device AND last.start_ns <= ends.end_ns
