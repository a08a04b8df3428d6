-- One row per file, style and name of ranges that the program marked (NVTX, record_function): how often and how long.
--
-- Times are those of the ranges on the host. Nested ranges count in full, so rows do not add up to wall time; the
-- percentage is of the total of all rows. Differences from NVIDIA's report: the domain has a column of its own, and a
-- PyTorch operator has one row instead of one per call, because names lose the suffix of emit_nvtx (", seq = 12, op_id
-- = 34, sizes = …", which host_slices and event_args keep). A range that was open when the capture stopped (of PyTorch:
-- finished: false) ends with the capture, where NVIDIA's report ends it at the last NVTX event: it counts, and is left
-- out of mean, median, shortest, longest and deviation.
--
-- columns:
--   trace        VARCHAR  name of the file
--   rank         INTEGER  rank in the job; NULL: the file holds several processes
--   domain       VARCHAR  NVTX domain; empty: the default domain. Ranges with names of NCCL are in its domain, also
--                         where the recording lacks the name of the domain
--   name         VARCHAR  name of the range
--   style        VARCHAR  PushPop or StartEnd
--   time_percent DOUBLE   sum_ns in percent of all rows of the file
--   sum_ns       BIGINT   sum of durations
--   range_count  BIGINT   ranges
--   mean_ns      DOUBLE   mean duration; NULL: all were cut
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
cut AS (
    SELECT trace_id, event_id
    FROM event_args
    WHERE event_id IN (SELECT event_id FROM drawn) AND is_cut(args)
),
ranges AS (
    SELECT
        file, file_rank,
        {
            'domain': coalesce(json_extract_string(args, '$.domain'), ''),
            'name': name,
            'style': CASE WHEN raw_category = 'NVTX start/end' THEN 'StartEnd' ELSE 'PushPop' END
        } AS key,
        dur_ns,
        cut.event_id IS NOT NULL AS is_cut
    FROM drawn
    JOIN trace_files USING (trace_id)
    LEFT JOIN domains USING (trace_id, event_id)
    LEFT JOIN cut USING (trace_id, event_id)
),
whole_ranges AS (
    FROM ranges WHERE NOT is_cut
)
SELECT
    ranges.trace, ranges.rank,
    ranges.key.domain AS domain,
    ranges.key.name AS name,
    ranges.key.style AS style,
    ranges.time_percent, ranges.sum_ns, ranges.row_count AS range_count, whole.mean_ns, whole.median_ns,
    whole.min_ns, whole.max_ns, whole.stddev_ns
FROM duration_summary('ranges') AS ranges
LEFT JOIN duration_summary('whole_ranges') AS whole USING (trace, key)
ORDER BY ranges.trace, ranges.sum_ns DESC, domain, name, style
