-- One row per file and call of the operating system's libraries: how often it was made and how long it took.
--
-- The rows cover calls of all processes and threads of the file, including the time that a call waits; the percentage
-- is of the total of all rows. The tracer's own marks and scheduling intervals are not included. Only Nsight Systems
-- records these calls.
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
    WHERE raw_category = 'OSRT_API'
)
SELECT
    trace, rank, key AS name, time_percent, sum_ns, row_count AS call_count, mean_ns, median_ns, min_ns,
    max_ns, stddev_ns
FROM duration_summary('calls')
ORDER BY trace, sum_ns DESC, name
