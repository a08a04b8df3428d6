-- One row per file and CUDA call: how often it was made and how long it took, as in NVIDIA's report of the same name.
--
-- The rows cover the runtime and driver calls of all processes and threads of the file; a driver call inside a runtime
-- call counts in both rows. The percentage is of the total of all rows, not of wall time. As in `nsys stats`, names
-- lose the suffix `_v` with four digits and keep longer ones. One difference from NVIDIA's report: a call that the
-- profiler wrote a second time, with its backtrace, counts once.
--
-- columns:
--   trace        VARCHAR  name of the file
--   rank         INTEGER  rank in the job; NULL: the file holds several processes
--   name         VARCHAR  call
--   time_percent DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns       BIGINT   sum of durations
--   call_count   BIGINT   calls
--   mean_ns      DOUBLE   mean duration
--   median_ns    DOUBLE   median duration; for an even count the mean of the middle two
--   min_ns       BIGINT   shortest
--   max_ns       BIGINT   longest
--   stddev_ns    DOUBLE   sample standard deviation; 0 for one call
WITH calls AS (
    SELECT file, file_rank, name AS key, dur_ns
    FROM host_slices
    JOIN trace_files USING (trace_id)
    WHERE category IN ('runtime', 'driver')
)
SELECT
    trace, rank,
    regexp_replace(key, '_v\d{4}$', '') AS name,
    time_percent, sum_ns, row_count AS call_count, mean_ns, median_ns, min_ns, max_ns, stddev_ns
FROM duration_summary('calls')
ORDER BY trace, sum_ns DESC, name
