-- One row per device and stream: why it had no work between its operations, as Holistic Trace Analysis counts it.
--
-- As stream_idle, but a gap begins at the end of the operation that started before, whether or not an earlier one runs
-- longer. Where operations of a stream overlap, gaps are negative, and are added up as they are. For comparison only.
-- Source: Holistic Trace Analysis, idle time breakdown.
--
-- columns: trace, rank, device
--   stream          BIGINT   stream
--   gap_count       BIGINT   pairs of operations that follow each other
--   negative_count  BIGINT   pairs that overlap
--   idle_ns         BIGINT   sum of the gaps, negative ones included
--   host_wait_ns    BIGINT   gaps that end before the next operation is launched
--   kernel_wait_ns  BIGINT   other gaps of less than 30 us, negative ones included
--   other_wait_ns   BIGINT   the rest
WITH gaps AS (
    SELECT
        ops.trace_id, ops.device, ops.stream,
        lag(ops.start_ns + ops.dur_ns) OVER of_stream AS before_end_ns,
        ops.start_ns - before_end_ns AS gap_ns,
        CASE
            WHEN calls.start_ns > before_end_ns THEN 'host'
            WHEN gap_ns < 30000 THEN 'kernel'
            ELSE 'other'
        END AS cause
    FROM canonical.gpu_ops AS ops
    LEFT JOIN canonical.host_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
    WINDOW of_stream AS (PARTITION BY ops.trace_id, ops.device, ops.stream ORDER BY ops.start_ns, ops.op_id)
)
SELECT
    traces.trace, traces.rank, gaps.device, gaps.stream,
    count(*) AS gap_count,
    count(*) FILTER (WHERE gap_ns < 0) AS negative_count,
    CAST(sum(gap_ns) AS BIGINT) AS idle_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'host'), 0) AS BIGINT) AS host_wait_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'kernel'), 0) AS BIGINT) AS kernel_wait_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'other'), 0) AS BIGINT) AS other_wait_ns
FROM gaps
JOIN canonical.traces AS traces USING (trace_id)
WHERE gap_ns IS NOT NULL
GROUP BY gaps.trace_id, traces.trace, traces.rank, gaps.device, gaps.stream
ORDER BY gaps.trace_id, gaps.device, gaps.stream
