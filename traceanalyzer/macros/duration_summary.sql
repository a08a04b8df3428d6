-- Durations by file and key as `nsys stats` summarises them. The argument is the name of a table or view with the
-- columns file, file_rank, key and dur_ns. The percentage is of the file's total; for an even count the median is the
-- mean of the middle two; the deviation is the sample standard deviation, 0 for one row. Percentage, mean, median and
-- deviation have one decimal.
CREATE OR REPLACE MACRO duration_summary(durations) AS TABLE (
    WITH sums AS (
        SELECT
            file,
            any_value(file_rank) AS file_rank,
            key,
            CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
            count(*) AS row_count,
            round_half_up(avg(dur_ns), 1) AS mean_ns,
            round_half_up(median(dur_ns), 1) AS median_ns,
            min(dur_ns) AS min_ns,
            max(dur_ns) AS max_ns,
            round_half_up(coalesce(stddev_samp(dur_ns), 0), 1) AS stddev_ns
        FROM query_table(durations)
        GROUP BY file, key
    )
    SELECT
        file AS trace, file_rank AS rank, key,
        round_half_up(100.0 * sum_ns / nullif(sum(sum_ns) OVER (PARTITION BY file), 0), 1) AS time_percent,
        sum_ns, row_count, mean_ns, median_ns, min_ns, max_ns, stddev_ns
    FROM sums
);
