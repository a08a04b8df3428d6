-- One row per device, step and kernel name: how often the kernel ran, how long, and how long the device was idle before.
--
-- Plain sums over launches: kernels that run at the same time on two streams both count in full. A kernel belongs to the
-- step in which it starts (see gpu_op_steps). Replays of graphs whose nodes were not recorded count as kernels.
--
-- columns: trace, rank, device
--   step       BIGINT   step of the device; NULL: outside steps
--   kept       BOOLEAN  in the analysis window
--   name       VARCHAR  kernel, as written
--   class      VARCHAR  class of the kernel, as in kernel_class_names; NULL: none
--   call_count BIGINT   launches
--   sum_ns     BIGINT   sum of durations
--   max_ns     BIGINT   longest
--   idle_ns    BIGINT   time without any GPU operation on the device that ends with the start of the kernel (kernel_gaps)
WITH gaps AS (
    SELECT traces.trace_id, after_op_id AS op_id, sum(dur_ns) AS idle_ns
    FROM kernel_gaps
    JOIN canonical.traces USING (trace)
    GROUP BY traces.trace_id, after_op_id
)
SELECT
    trace, rank, ops.device, step, kept, ops.name,
    any_value(names.class) AS class,
    count(*) AS call_count,
    CAST(sum(ops.dur_ns) AS BIGINT) AS sum_ns,
    max(ops.dur_ns) AS max_ns,
    CAST(coalesce(sum(idle_ns), 0) AS BIGINT) AS idle_ns
FROM gpu_ops AS ops
JOIN gpu_op_steps USING (trace_id, op_id)
JOIN canonical.traces USING (trace_id)
LEFT JOIN gaps USING (trace_id, op_id)
LEFT JOIN kernel_class_names AS names ON names.name = ops.name
WHERE ops.kind IN ('kernel', 'graph')
GROUP BY ops.trace_id, trace, rank, ops.device, step, kept, ops.name
ORDER BY ops.trace_id, ops.device, step, kept, sum_ns DESC, ops.name
