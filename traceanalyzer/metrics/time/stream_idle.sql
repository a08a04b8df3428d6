-- One row per device and stream: why it had no work between its operations.
--
-- A gap lies between the latest end of all earlier operations of the stream and the start of the next one, so that no gap is
-- negative. Host wait: the call that launched the next operation started after that end, so the stream had nothing to do.
-- Kernel wait: the operation was launched in time and the gap is shorter than 30 us, the time between operations of a stream.
-- Other: the operation was launched in time and waited longer, for another stream or for something that is not recorded;
-- or its launch call is not in the trace.
-- Source: Holistic Trace Analysis, idle time breakdown, which takes the previous operation's end instead of the latest.
--
-- columns: trace, rank, device
--   stream          BIGINT   stream
--   gap_count       BIGINT   gaps
--   idle_ns         BIGINT   sum of the gaps
--   host_wait_ns    BIGINT   gaps in which nothing was launched
--   kernel_wait_ns  BIGINT   short gaps between operations that were launched in time
--   other_wait_ns   BIGINT   the rest
WITH ordered AS (
    SELECT
        ops.trace_id, ops.device, ops.stream, ops.start_ns, ops.launch_id,
        max(ops.start_ns + ops.dur_ns) OVER (
            PARTITION BY ops.trace_id, ops.device, ops.stream
            ORDER BY ops.start_ns, ops.dur_ns, ops.op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS reached_ns
    FROM canonical.gpu_ops AS ops
),
gaps AS (
    SELECT
        ordered.trace_id, ordered.device, ordered.stream,
        ordered.start_ns - ordered.reached_ns AS gap_ns,
        CASE
            WHEN calls.start_ns > ordered.reached_ns THEN 'host'
            WHEN calls.start_ns IS NOT NULL AND ordered.start_ns - ordered.reached_ns < 30000 THEN 'kernel'
            ELSE 'other'
        END AS cause
    FROM ordered
    LEFT JOIN canonical.host_slices AS calls ON calls.trace_id = ordered.trace_id AND calls.slice_id = ordered.launch_id
    WHERE ordered.start_ns > ordered.reached_ns
)
SELECT
    traces.trace, traces.rank, gaps.device, gaps.stream,
    count(*) AS gap_count,
    CAST(sum(gap_ns) AS BIGINT) AS idle_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'host'), 0) AS BIGINT) AS host_wait_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'kernel'), 0) AS BIGINT) AS kernel_wait_ns,
    CAST(coalesce(sum(gap_ns) FILTER (WHERE cause = 'other'), 0) AS BIGINT) AS other_wait_ns
FROM gaps
JOIN canonical.traces AS traces USING (trace_id)
GROUP BY gaps.trace_id, traces.trace, traces.rank, gaps.device, gaps.stream
ORDER BY gaps.trace_id, gaps.device, gaps.stream
