-- One row per launch that Nsight Compute profiled: what its counters say, in one form for every page and version.
--
-- Rates are shares of what the device can sustain. What limits a launch is by NVIDIA's own thresholds: latency, where
-- neither rate reaches 60 %, or small grid, where blocks also fill less than one wave of SMs; compute or memory, which is
-- ahead by 10 points or more; balanced otherwise.
--
-- Bytes of device memory are dram__bytes, or reads and writes, or their rate times the duration, whichever was collected;
-- devices of compute capability 8.7, 11.0 and 12.1 have no such counters. An addition or a multiplication is one operation:
-- fadd + fmul + 2 ffma of FP32 (with those in pairs, which devices of compute capability 10 have), the same of FP64, and
-- sm__ops_path_tensor_* of tensor cores. A sum is known only where all its parts were collected; without operations on
-- tensor cores, it is known that there were none where their pipe was not active. Half-precision instructions outside tensor
-- cores are not counted: some do two operations, some one.
--
-- The duration is that of a launch alone, with empty caches and fixed clocks. It is never one of the job.
-- Source: NVIDIA, Nsight Compute, sections SpeedOfLight and SpeedOfLight_Roofline and their rules.
--
-- columns:
--   file                           VARCHAR  ncu_files.file
--   launch                         BIGINT   ncu_launches.launch
--   name                           VARCHAR  kernel, as written
--   grid_x                         BIGINT   launch grid; NULL: not written
--   grid_y                         BIGINT   launch grid
--   grid_z                         BIGINT   launch grid
--   block_x                        BIGINT   thread block
--   block_y                        BIGINT   thread block
--   block_z                        BIGINT   thread block
--   compute_major                  INTEGER  compute capability
--   compute_minor                  INTEGER  compute capability
--   dur_ns                         BIGINT   duration under Nsight Compute
--   sm_percent                     DOUBLE   throughput of the SMs
--   memory_percent                 DOUBLE   throughput of caches and memory: the busiest of them
--   dram_percent                   DOUBLE   throughput of the device's memory
--   l1_percent                     DOUBLE   throughput of the L1 cache
--   l2_percent                     DOUBLE   throughput of the L2 cache
--   occupancy_percent              DOUBLE   achieved occupancy, measured
--   theoretical_occupancy_percent  DOUBLE   the most that registers, shared memory and block size allow
--   registers_per_thread           BIGINT   registers of a thread
--   waves_per_sm                   DOUBLE   blocks / blocks that the device holds at once
--   dram_bytes                     BIGINT   bytes read from and written to the device's memory
--   dram_bytes_source              VARCHAR  counted, or rate x time; NULL: unknown
--   fp32_flops                     DOUBLE   FP32 operations outside tensor cores
--   fp64_flops                     DOUBLE   FP64 operations outside tensor cores
--   tensor_flops                   DOUBLE   operations on tensor cores
--   flops                          DOUBLE   sum of the three; NULL: one of them is unknown
--   limited_by                     VARCHAR  compute, memory, balanced, latency or small grid; NULL: rates are unknown
WITH rates AS (
    SELECT
        file, launch,
        any_value(whole) FILTER (WHERE metric = 'gpu__time_duration.sum') AS counted_ns,
        any_value(whole) FILTER (WHERE metric = 'Duration' AND base_unit = 'ns') AS shown_ns,
        any_value(value) FILTER (WHERE metric = 'sm__throughput.avg.pct_of_peak_sustained_elapsed') AS sm,
        any_value(value) FILTER (WHERE metric IN ('Compute (SM) Throughput', 'SM [%]') AND base_unit = '%') AS shown_sm,
        any_value(value) FILTER (WHERE metric = 'gpu__compute_memory_throughput.avg.pct_of_peak_sustained_elapsed') AS memory,
        any_value(value) FILTER (WHERE metric IN ('Memory Throughput', 'Memory [%]') AND base_unit = '%') AS shown_memory,
        any_value(value) FILTER (WHERE metric = 'gpu__dram_throughput.avg.pct_of_peak_sustained_elapsed') AS gpu_dram,
        any_value(value) FILTER (WHERE metric = 'dram__throughput.avg.pct_of_peak_sustained_elapsed') AS dram,
        any_value(value) FILTER (WHERE metric IN ('DRAM Throughput', 'SOL DRAM') AND base_unit = '%') AS shown_dram,
        any_value(value) FILTER (WHERE metric = 'l1tex__throughput.avg.pct_of_peak_sustained_active') AS l1,
        any_value(value) FILTER (WHERE metric IN ('L1/TEX Cache Throughput', 'SOL L1/TEX Cache') AND base_unit = '%') AS shown_l1,
        any_value(value) FILTER (WHERE metric = 'lts__throughput.avg.pct_of_peak_sustained_elapsed') AS l2,
        any_value(value) FILTER (WHERE metric IN ('L2 Cache Throughput', 'SOL L2 Cache') AND base_unit = '%') AS shown_l2,
        any_value(value) FILTER (WHERE metric = 'sm__warps_active.avg.pct_of_peak_sustained_active') AS occupancy,
        any_value(value) FILTER (WHERE metric = 'Achieved Occupancy') AS shown_occupancy,
        any_value(value) FILTER (WHERE metric = 'sm__maximum_warps_per_active_cycle_pct') AS theoretical,
        any_value(value) FILTER (WHERE metric = 'Theoretical Occupancy') AS shown_theoretical,
        any_value(whole) FILTER (WHERE metric IN ('launch__registers_per_thread', 'Registers Per Thread')) AS registers,
        any_value(value) FILTER (WHERE metric IN ('launch__waves_per_multiprocessor', 'Waves Per SM')) AS waves,
        any_value(whole) FILTER (WHERE metric = 'dram__bytes.sum') AS bytes,
        any_value(whole) FILTER (WHERE metric IN ('dram__bytes_read.sum', 'dram__bytes_op_read.sum')) AS read_bytes,
        any_value(whole) FILTER (WHERE metric IN ('dram__bytes_write.sum', 'dram__bytes_op_write.sum')) AS written_bytes,
        any_value(value) FILTER (WHERE metric = 'dram__bytes.sum.per_second') AS bytes_per_s,
        any_value(value) FILTER (WHERE metric = 'Memory Throughput' AND base_unit = 'byte/s') AS shown_bytes_per_s,
        any_value(value) FILTER (WHERE metric = 'smsp__cycles_elapsed.avg.per_second') AS smsp_hz,
        any_value(value) FILTER (WHERE metric = 'sm__cycles_elapsed.avg.per_second') AS sm_hz,
        max(value) FILTER (
            WHERE regexp_matches(metric, '^sm__pipe_(tensor|tc)_cycles_active(_v2)?\.avg\.pct_of_peak_sustained_(active|elapsed)$')
        ) AS tensor_activity
    FROM canonical.ncu_metrics
    GROUP BY file, launch
),
named AS (
    SELECT
        file, launch,
        regexp_extract(metric, '^smsp?__sass_thread_inst_executed_op_([fd](?:add|mul|fma)2?)_pred_on\.sum(?:\.per_cycle_elapsed)?$', 1)
            AS instruction,
        regexp_extract(metric, '^sm__ops_path_tensor_src_([a-z0-9_]+)_dst_[a-z0-9]+\.sum(?:\.per_cycle_elapsed)?$', 1) AS operand_types,
        regexp_extract(metric, '_dst_([a-z0-9]+)\.', 1) AS result_type,
        ends_with(metric, '.per_cycle_elapsed') AS is_rate,
        value
    FROM canonical.ncu_metrics
    WHERE value IS NOT NULL
      AND regexp_matches(metric, '^(smsp?__sass_thread_inst_executed_op|sm__ops_path_tensor_src)_')
),
instructions AS (
    SELECT
        file, launch, instruction,
        coalesce(
            any_value(value) FILTER (WHERE NOT is_rate),
            any_value(value * smsp_hz * coalesce(counted_ns, shown_ns) / 1e9) FILTER (WHERE is_rate)
        ) AS amount
    FROM named
    JOIN rates USING (file, launch)
    WHERE instruction <> ''
    GROUP BY file, launch, instruction
),
scalar_flops AS (
    SELECT
        file, launch,
        count(amount) FILTER (WHERE instruction IN ('fadd', 'fmul', 'ffma')) = 3 AS has_fp32,
        count(amount) FILTER (WHERE instruction IN ('fadd2', 'fmul2', 'ffma2')) = 3 AS has_pairs,
        count(amount) FILTER (WHERE instruction IN ('dadd', 'dmul', 'dfma')) = 3 AS has_fp64,
        sum(amount * if(contains(instruction, 'fma'), 2, 1) * if(ends_with(instruction, '2'), 2, 1))
            FILTER (WHERE starts_with(instruction, 'f')) AS fp32,
        sum(amount * if(contains(instruction, 'fma'), 2, 1)) FILTER (WHERE starts_with(instruction, 'd')) AS fp64
    FROM instructions
    GROUP BY file, launch
),
tensor_paths AS (
    SELECT
        file, launch, operand_types, result_type,
        coalesce(
            any_value(value) FILTER (WHERE NOT is_rate),
            any_value(value * sm_hz * coalesce(counted_ns, shown_ns) / 1e9) FILTER (WHERE is_rate)
        ) AS amount
    FROM named
    JOIN rates USING (file, launch)
    WHERE operand_types <> ''
    GROUP BY file, launch, operand_types, result_type
),
-- A path for several types holds those of each: where both were collected, neither is a part of the sum for sure.
path_types AS (
    SELECT file, launch, result_type, unnest(string_split(operand_types, '_')) AS operand_type
    FROM tensor_paths
),
overlapping AS (
    SELECT DISTINCT file, launch
    FROM path_types
    GROUP BY file, launch, result_type, operand_type
    HAVING count(*) > 1
),
tensor_sums AS (
    SELECT file, launch, if(count(amount) = count(*), sum(amount), NULL) AS amount
    FROM tensor_paths
    ANTI JOIN overlapping USING (file, launch)
    GROUP BY file, launch
)
SELECT
    launches.file, launches.launch, launches.name, launches.grid_x, launches.grid_y, launches.grid_z,
    launches.block_x, launches.block_y, launches.block_z, launches.compute_major, launches.compute_minor,
    coalesce(counted_ns, shown_ns) AS dur_ns,
    coalesce(sm, shown_sm) AS sm_percent,
    coalesce(memory, shown_memory) AS memory_percent,
    CASE WHEN has_dram THEN coalesce(gpu_dram, dram, shown_dram) END AS dram_percent,
    coalesce(l1, shown_l1) AS l1_percent,
    coalesce(l2, shown_l2) AS l2_percent,
    coalesce(occupancy, shown_occupancy) AS occupancy_percent,
    coalesce(theoretical, shown_theoretical) AS theoretical_occupancy_percent,
    registers AS registers_per_thread, waves AS waves_per_sm,
    CASE
        WHEN has_dram
        THEN coalesce(bytes, read_bytes + written_bytes, CAST(round(coalesce(bytes_per_s, shown_bytes_per_s) * dur_ns / 1e9) AS BIGINT))
    END AS dram_bytes,
    CASE
        WHEN dram_bytes IS NULL THEN NULL
        WHEN coalesce(bytes, read_bytes + written_bytes) IS NULL THEN 'rate x time'
        ELSE 'counted'
    END AS dram_bytes_source,
    CASE WHEN has_fp32 AND (has_pairs OR compute_major IS DISTINCT FROM 10) THEN fp32 END AS fp32_flops,
    CASE WHEN has_fp64 THEN fp64 END AS fp64_flops,
    CASE
        WHEN tensor_sums.amount > 0 THEN tensor_sums.amount
        WHEN tensor_activity = 0 THEN 0
    END AS tensor_flops,
    fp32_flops + fp64_flops + tensor_flops AS flops,
    CASE
        WHEN sm_percent IS NULL OR memory_percent IS NULL THEN NULL
        WHEN greatest(sm_percent, memory_percent) < 60 THEN if(coalesce(waves < 1, FALSE), 'small grid', 'latency')
        WHEN sm_percent - memory_percent >= 10 THEN 'compute'
        WHEN memory_percent - sm_percent >= 10 THEN 'memory'
        ELSE 'balanced'
    END AS limited_by
FROM (
    SELECT *, coalesce((compute_major, compute_minor) NOT IN ((8, 7), (11, 0), (12, 1)), TRUE) AS has_dram
    FROM canonical.ncu_launches
) AS launches
LEFT JOIN rates USING (file, launch)
LEFT JOIN scalar_flops USING (file, launch)
LEFT JOIN tensor_sums USING (file, launch)
ORDER BY launches.file, launches.launch
