-- One row per file, style and name of ranges that the program marked (NVTX, record_function): how often and how long.
--
-- Times are those of the ranges on the host. Nested ranges count in full, so rows do not add up to wall time; the
-- percentage is of the total of all rows. Differences from NVIDIA's report: the domain has a column of its own, and a
-- PyTorch operator has one row instead of one per call, because names lose the suffix of emit_nvtx (", seq = 12, op_id
-- = 34, sizes = …", which host_slices and event_args keep). A range that was open when the capture stopped ends at the
-- last NVTX event.
--
-- columns:
--   trace        VARCHAR  name of the file
--   rank         INTEGER  rank in the job; NULL: the file holds several processes
--   domain       VARCHAR  NVTX domain; empty: the default domain
--   name         VARCHAR  name of the range
--   style        VARCHAR  PushPop or StartEnd
--   time_percent DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns       BIGINT   sum of durations
--   range_count  BIGINT   ranges
--   mean_ns      DOUBLE   mean duration
--   median_ns    DOUBLE   median duration; for an even count the mean of the middle two
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
    -- Only Nsight Systems records domains; the arguments of other traces are long, so they are not read.
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
