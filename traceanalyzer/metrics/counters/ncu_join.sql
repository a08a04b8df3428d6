-- One row per kernel of a device as launched (name, grid and block), without communication: what the counters of Nsight
-- Compute say of it, and how sure it is that they are of the same kernel.
--
-- Both recordings are of different runs, so only names and sizes can tell, never times. How a launch was found (tier):
-- launch: name, grid and block are equal; name: the name is equal, the sizes are not, or were not written; base name: one
-- side has the function's name only, and it stands for one kernel on both sides. Names are compared as kernel_identity
-- gives them, where each side has one kernel of that identity. Launches on devices of another compute capability are not
-- taken. Numbers are means over the profiled launches; where files hold different metrics, over those of the files that
-- hold it.
--
-- Nsight Compute runs a kernel alone, so none of its durations are here: its rates are, and the time is the job's. The
-- headroom is what a kernel would save at most if it ran as fast as the device can sustain at what it uses most:
-- sum_ns x (1 - greatest(sm_percent, memory_percent) / 100). It is a ceiling, not an estimate.
--
-- columns: trace, rank, device, trace_id
--   name               VARCHAR  kernel, as the trace has it
--   grid_x             BIGINT   launch grid
--   grid_y             BIGINT   launch grid
--   grid_z             BIGINT   launch grid
--   block_x            BIGINT   thread block
--   block_y            BIGINT   thread block
--   block_z            BIGINT   thread block
--   kernel_count       BIGINT   launches in the trace
--   sum_ns             BIGINT   sum of their durations
--   tier               VARCHAR  launch, name or base name; NULL: no counters of it
--   profiled_count     BIGINT   launches that Nsight Compute profiled
--   sm_percent         DOUBLE   throughput of the SMs
--   memory_percent     DOUBLE   throughput of caches and memory: the busiest of them
--   dram_percent       DOUBLE   throughput of the device's memory
--   occupancy_percent  DOUBLE   achieved occupancy, measured
--   limited_by         VARCHAR  as in ncu_kernels; varies: not the same for all profiled launches; NULL: unknown
--   dram_bytes         DOUBLE   bytes of device memory of one launch; NULL: unknown, or another grid or block
--   flops              DOUBLE   operations of one launch; NULL: unknown, or another grid or block
--   spread             DOUBLE   greatest / least of these over the profiled launches, of whichever is larger; NULL: unknown
--   headroom_ns        BIGINT   see above; NULL: rates are unknown
WITH launched AS MATERIALIZED (
    SELECT
        row_number() OVER () AS launched_id,
        trace_id, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z,
        count(*) AS kernel_count,
        CAST(sum(dur_ns) AS BIGINT) AS sum_ns
    FROM canonical.gpu_ops
    WHERE kind = 'kernel' AND NOT is_comm
    GROUP BY trace_id, device, name, grid_x, grid_y, grid_z, block_x, block_y, block_z
),
-- Of each side by itself: how many names mean one function, and how many functions have one base.
names AS (
    SELECT
        *,
        count(*) OVER (PARTITION BY side, identity) AS namesakes,
        count(DISTINCT identity) OVER (PARTITION BY side, base) AS functions
    FROM (
        SELECT
            side, name,
            kernel_identity(coalesce(function_name, name)) AS identity,
            kernel_base(identity) AS base
        FROM (
            SELECT DISTINCT 'recorded' AS side, name, NULL AS function_name FROM launched WHERE name IS NOT NULL
            UNION ALL
            SELECT DISTINCT 'profiled', name, function_name FROM canonical.ncu_launches
        )
    )
),
equal_names AS (
    SELECT recorded.name, profiled.name AS profiled_name, recorded.identity = profiled.identity AS is_whole
    FROM (FROM names WHERE side = 'recorded') AS recorded
    JOIN (FROM names WHERE side = 'profiled') AS profiled ON recorded.base = profiled.base
    WHERE recorded.name = profiled.name
       OR (
           recorded.namesakes = 1
           AND profiled.namesakes = 1
           AND (
               recorded.identity = profiled.identity
               OR (
                   recorded.base IN (recorded.identity, profiled.identity)
                   AND recorded.functions = 1
                   AND profiled.functions = 1
               )
           )
       )
),
found AS (
    SELECT
        launched.launched_id,
        kernels.* EXCLUDE (name, grid_x, grid_y, grid_z, block_x, block_y, block_z),
        CASE
            WHEN NOT is_whole THEN 3
            WHEN launch_size(
                launched.grid_x, launched.grid_y, launched.grid_z, launched.block_x, launched.block_y, launched.block_z
            ) = launch_size(
                kernels.grid_x, kernels.grid_y, kernels.grid_z, kernels.block_x, kernels.block_y, kernels.block_z
            )
            THEN 1
            ELSE 2
        END AS tier
    FROM launched
    JOIN equal_names USING (name)
    JOIN ncu_kernels AS kernels ON kernels.name = equal_names.profiled_name
    LEFT JOIN canonical.devices AS devices USING (trace_id, device)
    WHERE devices.compute_major IS NULL
       OR kernels.compute_major IS NULL
       OR (devices.compute_major = kernels.compute_major AND devices.compute_minor = kernels.compute_minor)
),
nearest AS (
    SELECT *
    FROM found
    QUALIFY tier = min(tier) OVER (PARTITION BY launched_id)
),
-- A number is unknown where a file has it for a part of the launches; a file without it has other metrics.
complete AS (
    SELECT
        *,
        count(dram_bytes) OVER of_file IN (0, count(*) OVER of_file) AS has_bytes,
        count(fp32_flops) OVER of_file IN (0, count(*) OVER of_file) AS has_fp32,
        count(fp64_flops) OVER of_file IN (0, count(*) OVER of_file) AS has_fp64,
        count(tensor_flops) OVER of_file IN (0, count(*) OVER of_file) AS has_tensor
    FROM nearest
    WINDOW of_file AS (PARTITION BY launched_id, file)
),
measured AS (
    SELECT
        launched_id,
        any_value(tier) AS tier,
        count(*) AS profiled_count,
        avg(sm_percent) AS sm_percent,
        avg(memory_percent) AS memory_percent,
        avg(dram_percent) AS dram_percent,
        avg(occupancy_percent) AS occupancy_percent,
        CASE count(DISTINCT limited_by) WHEN 0 THEN NULL WHEN 1 THEN any_value(limited_by) ELSE 'varies' END AS limited_by,
        if(any_value(tier) = 1 AND bool_and(has_bytes), avg(dram_bytes), NULL) AS dram_bytes,
        CASE
            WHEN any_value(tier) = 1 AND bool_and(has_fp32 AND has_fp64 AND has_tensor)
            THEN avg(fp32_flops) + avg(fp64_flops) + avg(tensor_flops)
        END AS flops,
        greatest(
            max(dram_bytes) / nullif(min(dram_bytes), 0),
            coalesce(
                max(complete.flops) / nullif(min(complete.flops), 0),
                greatest(
                    max(fp32_flops) / nullif(min(fp32_flops), 0),
                    max(fp64_flops) / nullif(min(fp64_flops), 0),
                    max(tensor_flops) / nullif(min(tensor_flops), 0)
                )
            )
        ) AS spread
    FROM complete
    GROUP BY launched_id
)
SELECT
    traces.trace, traces.rank, launched.device, launched.trace_id, launched.name, launched.grid_x,
    launched.grid_y, launched.grid_z, launched.block_x, launched.block_y, launched.block_z,
    launched.kernel_count, launched.sum_ns,
    CASE measured.tier WHEN 1 THEN 'launch' WHEN 2 THEN 'name' WHEN 3 THEN 'base name' END AS tier,
    coalesce(measured.profiled_count, 0) AS profiled_count,
    measured.sm_percent, measured.memory_percent, measured.dram_percent, measured.occupancy_percent,
    measured.limited_by, measured.dram_bytes, measured.flops, measured.spread,
    CASE
        WHEN sm_percent IS NOT NULL AND memory_percent IS NOT NULL
        THEN CAST(round(launched.sum_ns * (1 - least(greatest(sm_percent, memory_percent), 100) / 100)) AS BIGINT)
    END AS headroom_ns
FROM launched
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN measured USING (launched_id)
ORDER BY launched.trace_id, launched.device, launched.sum_ns DESC, launched.name, launched.grid_x, launched.grid_y,
    launched.grid_z, launched.block_x, launched.block_y, launched.block_z
