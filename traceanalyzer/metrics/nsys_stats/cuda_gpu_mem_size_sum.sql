-- One row per file and memory operation: sizes of copies by direction and of memsets, as in NVIDIA's report.
--
-- Sizes are in MB of 1,000,000 bytes with three decimals, as in `nsys stats`; size_bytes is exact. Median and deviation
-- are as in cuda_gpu_kern_sum. Operations without a recorded size are not included.
--
-- columns:
--   trace           VARCHAR  name of the file
--   rank            INTEGER  rank in the job; NULL: the file holds several processes
--   operation       VARCHAR  operation: [CUDA memcpy HtoD], [CUDA Unified Memory memcpy HtoD], [CUDA memset] …, where
--                            newer versions of `nsys stats` write [CUDA memcpy Host-to-Device] and [CUDA memcpy
--                            Unified Host-to-Device]
--   sum_mb          DOUBLE   sum of sizes
--   operation_count BIGINT   operations
--   mean_mb         DOUBLE   mean size
--   median_mb       DOUBLE   median size
--   min_mb          DOUBLE   smallest
--   max_mb          DOUBLE   largest
--   stddev_mb       DOUBLE   sample standard deviation; 0 for one operation
--   size_bytes      BIGINT   sum of sizes in bytes
WITH operations AS (
    SELECT
        file, file_rank, size_bytes,
        CASE
            WHEN kind = 'memset' THEN '[CUDA memset]'
            WHEN name LIKE 'Memcpy UVM %' THEN '[CUDA Unified Memory memcpy ' || coalesce(copy_kind, 'Unknown') || ']'
            ELSE '[CUDA memcpy ' || coalesce(copy_kind, 'Unknown') || ']'
        END AS operation
    FROM gpu_ops
    JOIN trace_files USING (trace_id)
    WHERE kind IN ('memcpy', 'memset') AND size_bytes IS NOT NULL
)
SELECT
    file AS trace,
    any_value(file_rank) AS rank,
    operation,
    round_half_up(sum(size_bytes) / 1e6, 3) AS sum_mb,
    count(*) AS operation_count,
    round_half_up(avg(size_bytes) / 1e6, 3) AS mean_mb,
    round_half_up(median(size_bytes) / 1e6, 3) AS median_mb,
    round_half_up(min(size_bytes) / 1e6, 3) AS min_mb,
    round_half_up(max(size_bytes) / 1e6, 3) AS max_mb,
    round_half_up(coalesce(stddev_samp(size_bytes), 0) / 1e6, 3) AS stddev_mb,
    TRY_CAST(sum(size_bytes) AS BIGINT) AS size_bytes
FROM operations
GROUP BY file, operation
ORDER BY file, sum(size_bytes) DESC, operation
