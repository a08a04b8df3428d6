-- One row per device with kernels: how much of its kernel time has counters of Nsight Compute.
--
-- Without communication, which Nsight Compute cannot profile: it runs one process's kernel at a time.
--
-- columns: trace, rank, device
--   sum_ns         BIGINT   sum of the kernels' durations
--   launch_ns      BIGINT   of kernels found by name, grid and block (ncu_join.tier)
--   name_ns        BIGINT   of kernels found by name
--   base_name_ns   BIGINT   of kernels found by the name of their function
--   matched_share  DOUBLE   the three / sum_ns
--   headroom_ns    BIGINT   sum of ncu_join.headroom_ns; NULL: no rates
SELECT
    trace, rank, device,
    CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
    CAST(coalesce(sum(sum_ns) FILTER (WHERE tier = 'launch'), 0) AS BIGINT) AS launch_ns,
    CAST(coalesce(sum(sum_ns) FILTER (WHERE tier = 'name'), 0) AS BIGINT) AS name_ns,
    CAST(coalesce(sum(sum_ns) FILTER (WHERE tier = 'base name'), 0) AS BIGINT) AS base_name_ns,
    coalesce(sum(sum_ns) FILTER (WHERE tier IS NOT NULL), 0) / nullif(sum(sum_ns), 0) AS matched_share,
    CAST(sum(headroom_ns) AS BIGINT) AS headroom_ns
FROM ncu_join
GROUP BY trace_id, trace, rank, device
ORDER BY trace_id, device
