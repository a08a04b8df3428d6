-- One row per trace and device: the share of its steps in which at least one kernel runs, as in the TensorBoard plugin.
--
-- Utilisation is the length of (union of kernels ∩ steps) divided by the length of the steps, from the start of the
-- first step to the end of the last (`tensorboard_steps`). Kernels of all streams count, including communication and
-- graph replays recorded as a whole; copies do not. High utilisation means that some kernel runs, not that it fills the
-- device: see sm_efficiency and occupancy.
-- Source: torch-tb-profiler 0.4.3, gpu_metrics_parser.py, 'GPU Utilization'.
--
-- columns: trace, rank, device
--   steps_ns          BIGINT   from the start of the first step to the end of the last
--   kernel_ns         BIGINT   part of steps_ns in which a kernel runs
--   utilisation_share DOUBLE   kernel_ns / steps_ns
WITH span AS (
    FROM step_span('tensorboard_steps')
),
kernels AS (
    SELECT
        {'trace_id': span.trace_id, 'device': span.device} AS key,
        greatest(ops.start_ns, span.start_ns) AS start_ns,
        least(ops.start_ns + ops.dur_ns, span.end_ns) AS end_ns
    FROM gpu_ops AS ops
    JOIN span USING (trace_id, device)
    WHERE ops.kind IN ('kernel', 'graph')
),
unions AS (
    SELECT key.trace_id AS trace_id, key.device AS device, CAST(sum(end_ns - start_ns) AS BIGINT) AS kernel_ns
    FROM interval_merge('kernels')
    GROUP BY key
)
SELECT
    trace, rank, device,
    end_ns - start_ns AS steps_ns,
    coalesce(kernel_ns, 0) AS kernel_ns,
    coalesce(kernel_ns, 0) / nullif(end_ns - start_ns, 0) AS utilisation_share
FROM span
LEFT JOIN unions USING (trace_id, device)
ORDER BY trace_id, device
