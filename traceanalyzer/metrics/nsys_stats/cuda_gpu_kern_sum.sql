-- One row per file and kernel name: how often the kernel ran and how long, as in NVIDIA's report of the same name.
--
-- Plain sums over launches of all processes and devices of the file; the percentage is of the total of all rows, not of
-- wall time. For an even count the median is the mean of the middle two; the deviation is the sample standard
-- deviation, 0 for one launch. Median, deviation, mean and percentage have one decimal, as in `nsys stats`. Graph
-- replays that were recorded as a whole have no kernels, so they are not included. Use kernel_summary for ranks and
-- devices.
--
-- columns:
--   trace          VARCHAR  name of the file
--   rank           INTEGER  rank in the job; NULL: the file holds several processes
--   name           VARCHAR  kernel, as written
--   time_percent   DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns         BIGINT   sum of durations
--   instance_count BIGINT   launches
--   mean_ns        DOUBLE   mean duration
--   median_ns      DOUBLE   median duration
--   min_ns         BIGINT   shortest
--   max_ns         BIGINT   longest
--   stddev_ns      DOUBLE   sample standard deviation
WITH kernels AS (
    SELECT file, file_rank, name AS key, dur_ns
    FROM gpu_ops
    JOIN trace_files USING (trace_id)
    WHERE kind = 'kernel'
)
SELECT
    trace, rank, key AS name, time_percent, sum_ns, row_count AS instance_count, mean_ns, median_ns, min_ns,
    max_ns, stddev_ns
FROM duration_summary('kernels')
ORDER BY trace, sum_ns DESC, name
