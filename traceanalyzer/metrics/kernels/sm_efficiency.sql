-- One row per trace and device: the estimated share of its SMs that have work, averaged over its steps.
--
-- At each instant min(Σ blocks per SM of the running kernels, 1), integrated over the steps and divided by their length
-- (`tensorboard_steps`), as in the TensorBoard plugin: a kernel with fewer blocks than the device has SMs leaves the
-- other SMs empty. Blocks per SM come from the profiler, or are grid size / SM count where it recorded none (Nsight
-- Systems). Kernels without both count as empty, so a covered share below 1 makes the efficiency a lower bound.
-- Source: torch-tb-profiler 0.4.3, gpu_metrics_parser.py, 'Est. SM Efficiency'.
--
-- columns: trace, rank, device
--   steps_ns            BIGINT   from the start of the first step to the end of the last
--   efficient_ns        DOUBLE   the integral: time, weighted with the share of SMs that have work
--   sm_efficiency_share DOUBLE   efficient_ns / steps_ns; NULL: blocks per SM are known for no kernel
--   covered_share       DOUBLE   share of the sum of kernel durations whose blocks per SM are known
WITH kernels AS (
    SELECT
        ops.trace_id, ops.device, ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns,
        coalesce(blocks_per_sm, ops.grid_x * ops.grid_y * ops.grid_z / nullif(devices.sm_count, 0)) AS blocks_per_sm
    FROM gpu_ops AS ops
    LEFT JOIN devices USING (trace_id, device)
    WHERE ops.kind = 'kernel'
),
span AS (
    FROM step_span('tensorboard_steps')
),
coverage AS (
    SELECT trace_id, device, sum(CASE WHEN blocks_per_sm > 0 THEN end_ns - start_ns ELSE 0 END) / nullif(sum(end_ns - start_ns), 0) AS covered_share
    FROM kernels
    GROUP BY trace_id, device
),
-- One block fills an SM as much as several; exact decimals, so that the sum over running kernels returns to zero.
changes AS (
    SELECT
        trace_id, device,
        unnest([greatest(kernels.start_ns, span.start_ns), least(kernels.end_ns, span.end_ns)]) AS at_ns,
        unnest([1, -1]) * CAST(least(blocks_per_sm, 1) AS DECIMAL(18, 9)) AS filled
    FROM kernels
    JOIN span USING (trace_id, device)
    WHERE blocks_per_sm > 0 AND kernels.start_ns < span.end_ns AND kernels.end_ns > span.start_ns
),
instants AS (
    SELECT trace_id, device, at_ns, sum(filled) AS filled
    FROM changes
    GROUP BY trace_id, device, at_ns
),
stretches AS (
    SELECT
        trace_id, device,
        lead(at_ns) OVER timeline - at_ns AS dur_ns,
        least(sum(filled) OVER timeline, 1) AS filled_share
    FROM instants
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY at_ns)
),
integrals AS (
    SELECT trace_id, device, CAST(sum(dur_ns * CAST(filled_share AS DECIMAL(18, 9))) AS DOUBLE) AS efficient_ns
    FROM stretches
    GROUP BY trace_id, device
)
SELECT
    trace, rank, device,
    end_ns - start_ns AS steps_ns,
    efficient_ns,
    efficient_ns / nullif(end_ns - start_ns, 0) AS sm_efficiency_share,
    coalesce(covered_share, 0) AS covered_share
FROM span
LEFT JOIN integrals USING (trace_id, device)
LEFT JOIN coverage USING (trace_id, device)
ORDER BY trace_id, device
