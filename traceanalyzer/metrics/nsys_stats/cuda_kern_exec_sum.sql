-- One row per thread, device, call and kernel name: times of launch call, queue and kernel, as in NVIDIA's report.
--
-- The times are defined in cuda_kern_exec_trace. Means, medians and deviations (sample standard deviation, 0 for one
-- launch) have one decimal, as in `nsys stats`; the queue columns count only launches that waited in the queue.
--
-- columns: trace, rank, device
--   pid              VARCHAR  process of the calls
--   tid              VARCHAR  thread of the calls
--   api              VARCHAR  call
--   name             VARCHAR  kernel, as written
--   launch_count     BIGINT   kernels
--   queued_count     BIGINT   kernels that started after their call returned
--   total_mean_ns    DOUBLE   mean of the total times
--   total_median_ns  DOUBLE   median of the total times
--   total_min_ns     BIGINT   shortest total time
--   total_max_ns     BIGINT   longest total time
--   total_stddev_ns  DOUBLE   deviation of the total times
--   api_mean_ns      DOUBLE   mean of the calls
--   api_median_ns    DOUBLE   median of the calls
--   api_min_ns       BIGINT   shortest call
--   api_max_ns       BIGINT   longest call
--   api_stddev_ns    DOUBLE   deviation of the calls
--   queue_mean_ns    DOUBLE   mean of the queue times
--   queue_median_ns  DOUBLE   median of the queue times
--   queue_min_ns     BIGINT   shortest queue time
--   queue_max_ns     BIGINT   longest queue time
--   queue_stddev_ns  DOUBLE   deviation of the queue times
--   kernel_mean_ns   DOUBLE   mean of the kernels
--   kernel_median_ns DOUBLE   median of the kernels
--   kernel_min_ns    BIGINT   shortest kernel
--   kernel_max_ns    BIGINT   longest kernel
--   kernel_stddev_ns DOUBLE   deviation of the kernels
SELECT
    trace, rank, device, pid, tid, api, name,
    count(*) AS launch_count,
    count(queue_ns) AS queued_count,
    round_half_up(avg(total_ns), 1) AS total_mean_ns,
    round_half_up(median(total_ns), 1) AS total_median_ns,
    min(total_ns) AS total_min_ns,
    max(total_ns) AS total_max_ns,
    round_half_up(coalesce(stddev_samp(total_ns), 0), 1) AS total_stddev_ns,
    round_half_up(avg(api_ns), 1) AS api_mean_ns,
    round_half_up(median(api_ns), 1) AS api_median_ns,
    min(api_ns) AS api_min_ns,
    max(api_ns) AS api_max_ns,
    round_half_up(coalesce(stddev_samp(api_ns), 0), 1) AS api_stddev_ns,
    round_half_up(avg(queue_ns), 1) AS queue_mean_ns,
    round_half_up(median(queue_ns), 1) AS queue_median_ns,
    min(queue_ns) AS queue_min_ns,
    max(queue_ns) AS queue_max_ns,
    round_half_up(CASE WHEN count(queue_ns) > 0 THEN coalesce(stddev_samp(queue_ns), 0) END, 1) AS queue_stddev_ns,
    round_half_up(avg(kernel_ns), 1) AS kernel_mean_ns,
    round_half_up(median(kernel_ns), 1) AS kernel_median_ns,
    min(kernel_ns) AS kernel_min_ns,
    max(kernel_ns) AS kernel_max_ns,
    round_half_up(coalesce(stddev_samp(kernel_ns), 0), 1) AS kernel_stddev_ns
FROM cuda_kern_exec_trace
GROUP BY ALL
ORDER BY trace, total_mean_ns DESC, name, api, tid
