-- One row per file, style and name of ranges that the program drew (NVTX, record_function): how often and how long.
--
-- Times are of the host's ranges, nested ones count in full, so that rows do not add up to wall time; the percentage is
-- of the rows' total. Other than NVIDIA's: the domain is a column of its own, and an operator of PyTorch is one row and
-- not one a call, for names come without what emit_nvtx puts behind them (", seq = 12, op_id = 34, sizes = …": that is
-- in host_slices and event_args). Ranges that were open when the capture stopped end at the last NVTX event.
--
-- columns:
--   trace        VARCHAR  name of the file
--   rank         INTEGER  rank in the job, where the file holds one process
--   domain       VARCHAR  NVTX domain; empty: the default one
--   name         VARCHAR  range
--   style        VARCHAR  PushPop or StartEnd
--   time_percent DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns       BIGINT   sum of durations
--   range_count  BIGINT   ranges
--   mean_ns      DOUBLE   mean duration
--   median_ns    DOUBLE   median duration; of an even count the mean of the middle two
--   min_ns       BIGINT   shortest
--   max_ns       BIGINT   longest
--   stddev_ns    DOUBLE   sample standard deviation; 0 for one range
WITH drawn AS (
    SELECT trace_id, slice_id AS event_id, raw_category, name, dur_ns
    FROM host_slices
    WHERE category = 'annotation'
        OR raw_category LIKE 'NVTX %'
    UNION ALL
    SELECT trace_id, event_id, raw_category, name, dur_ns
    FROM async_slices
    WHERE raw_category LIKE 'NVTX %'
),
domains AS (
    -- Only Nsight Systems records domains; other traces' arguments are long and need not be read.
    SELECT trace_id, event_id, args
    FROM event_args
    SEMI JOIN (FROM canonical.traces WHERE format = 'nsys') AS recorders USING (trace_id)
),
ranges AS (
    SELECT
        file,
        file_rank,
        {
            'domain': coalesce(json_extract_string(args, '$.domain'), ''),
            'name': name,
            'style': CASE WHEN raw_category = 'NVTX start/end' THEN 'StartEnd' ELSE 'PushPop' END
        } AS key,
        dur_ns
    FROM drawn
    JOIN trace_files USING (trace_id)
    LEFT JOIN domains USING (trace_id, event_id)
)
SELECT
    trace,
    rank,
    key.domain AS domain,
    key.name AS name,
    key.style AS style,
    time_percent,
    sum_ns,
    row_count AS range_count,
    mean_ns,
    median_ns,
    min_ns,
    max_ns,
    stddev_ns
FROM duration_summary('ranges')
ORDER BY trace, sum_ns DESC, domain, name, style
