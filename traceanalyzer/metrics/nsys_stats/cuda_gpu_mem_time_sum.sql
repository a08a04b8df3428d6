-- One row per file and memory operation: times of copies by direction and of memsets, as in NVIDIA's report.
--
-- Plain sums over operations of all processes and devices of the file; the percentage is of the total of all rows.
-- Copies that migrate managed memory have rows of their own. Rounding, median and deviation are as in
-- cuda_gpu_kern_sum. Use copies for memory kinds and bandwidth: NVIDIA's report computes bandwidth in whole numbers,
-- copies does not.
--
-- columns:
--   trace           VARCHAR  name of the file
--   rank            INTEGER  rank in the job; NULL: the file holds several processes
--   operation       VARCHAR  operation: [CUDA memcpy HtoD], [CUDA Unified Memory memcpy HtoD], [CUDA memset] …, where
--                            newer versions of `nsys stats` write [CUDA memcpy Host-to-Device] and [CUDA memcpy
--                            Unified Host-to-Device]
--   time_percent    DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns          BIGINT   sum of durations
--   operation_count BIGINT   operations
--   mean_ns         DOUBLE   mean duration
--   median_ns       DOUBLE   median duration
--   min_ns          BIGINT   shortest
--   max_ns          BIGINT   longest
--   stddev_ns       DOUBLE   sample standard deviation
WITH operations AS (
    SELECT
        file, file_rank, dur_ns,
        CASE
            WHEN kind = 'memset' THEN '[CUDA memset]'
            WHEN name LIKE 'Memcpy UVM %' THEN '[CUDA Unified Memory memcpy ' || coalesce(copy_kind, 'Unknown') || ']'
            ELSE '[CUDA memcpy ' || coalesce(copy_kind, 'Unknown') || ']'
        END AS key
    FROM gpu_ops
    JOIN trace_files USING (trace_id)
    WHERE kind IN ('memcpy', 'memset')
)
SELECT
    trace, rank, key AS operation, time_percent, sum_ns, row_count AS operation_count, mean_ns, median_ns,
    min_ns, max_ns, stddev_ns
FROM duration_summary('operations')
ORDER BY trace, sum_ns DESC, operation
