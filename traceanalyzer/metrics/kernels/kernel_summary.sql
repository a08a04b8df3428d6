-- One row per trace, device and kernel name: how often the kernel ran and how long.
--
-- Plain sums over launches: kernels that run at the same time on two streams both count in full, so the sum can exceed
-- the device's busy time. The share is of the sum over all kernels of the device.
--
-- columns: trace, rank, device
--   name              VARCHAR  kernel, as written
--   is_comm           BOOLEAN  communication kernel
--   kernel_count      BIGINT   launches
--   sum_ns            BIGINT   sum of durations
--   mean_ns           DOUBLE   mean duration
--   median_ns         DOUBLE   median duration; for an even count the mean of the middle two
--   min_ns            BIGINT   shortest
--   max_ns            BIGINT   longest
--   stddev_ns         DOUBLE   sample standard deviation; NULL for a single launch
--   sum_share         DOUBLE   sum_ns / sum over all kernels of the device
--   occupancy_percent DOUBLE   estimated achieved occupancy, weighted by duration; NULL: not recorded
WITH named AS (
    SELECT
        trace_id, device, name,
        bool_or(is_comm) AS is_comm,
        count(*) AS kernel_count,
        CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
        avg(dur_ns) AS mean_ns,
        median(dur_ns) AS median_ns,
        min(dur_ns) AS min_ns,
        max(dur_ns) AS max_ns,
        stddev_samp(dur_ns) AS stddev_ns,
        sum(occupancy_percent * dur_ns) / nullif(sum(dur_ns) FILTER (WHERE occupancy_percent IS NOT NULL), 0) AS occupancy_percent
    FROM gpu_ops
    WHERE kind = 'kernel'
    GROUP BY trace_id, device, name
)
SELECT
    trace, rank, device, name, is_comm, kernel_count, sum_ns, mean_ns, median_ns, min_ns, max_ns, stddev_ns,
    sum_ns / nullif(sum(sum_ns) OVER (PARTITION BY trace_id, device), 0) AS sum_share,
    occupancy_percent
FROM named
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device, sum_ns DESC, name
