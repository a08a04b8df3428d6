-- One row per trace and device: the mean estimated achieved occupancy of kernels in its steps, weighted by duration.
--
-- Σ(occupancy · duration) / Σ duration over the kernels with a recorded occupancy, each cut to the steps
-- (`tensorboard_steps`), as in the TensorBoard plugin. Occupancy is the share of an SM's warp slots that can be in use.
-- The profiler estimates it from registers, shared memory and block size; it does not measure it.
-- Source: torch-tb-profiler 0.4.3, gpu_metrics_parser.py, 'Est. Achieved Occupancy'.
--
-- columns: trace, rank, device
--   sum_ns            BIGINT   sum of durations, within the steps, of the kernels with a recorded occupancy
--   occupancy_percent DOUBLE   mean occupancy, weighted by duration; NULL: not recorded for any kernel (Nsight Systems)
WITH span AS (
    FROM step_span('tensorboard_steps')
),
sums AS (
    SELECT
        ops.trace_id, ops.device,
        sum(occupancy_percent * (least(ops.start_ns + ops.dur_ns, end_ns) - greatest(ops.start_ns, span.start_ns))) AS weighted,
        CAST(sum(least(ops.start_ns + ops.dur_ns, end_ns) - greatest(ops.start_ns, span.start_ns)) AS BIGINT) AS sum_ns
    FROM gpu_ops AS ops
    JOIN span USING (trace_id, device)
    WHERE ops.kind = 'kernel'
      AND occupancy_percent >= 0
      AND ops.start_ns < span.end_ns
      AND ops.start_ns + ops.dur_ns > span.start_ns
    GROUP BY ops.trace_id, ops.device
)
SELECT trace, rank, device, coalesce(sum_ns, 0) AS sum_ns, weighted / nullif(sum_ns, 0) AS occupancy_percent
FROM span
LEFT JOIN sums USING (trace_id, device)
ORDER BY trace_id, device
