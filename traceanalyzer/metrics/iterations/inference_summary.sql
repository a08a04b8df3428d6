-- One row per device and kind of iteration: how long iterations of an inference engine take on the device.
--
-- Only outermost iterations with GPU work count (iterations). Percentiles are those of recorded iterations,
-- interpolated. The rate covers all iterations of the kind: tokens over time. The time of an iteration runs from the
-- start of its first operation to that of the next iteration, and for the last iteration to the end of its last
-- operation.
--
-- columns: trace, rank, device
--   kind             VARCHAR  prefill, decode or mixed; NULL: not recorded
--   iteration_count  BIGINT   iterations
--   tokens           BIGINT   tokens that they compute
--   p50_ns           DOUBLE   median of the spans on the device
--   p95_ns           DOUBLE   95th percentile
--   p99_ns           DOUBLE   99th percentile
--   busy_share       DOUBLE   busy time / span, of all
--   gap_sum_ns       BIGINT   sum of the gaps before them, without overlaps
--   tokens_per_s     DOUBLE   tokens / time
--   new_tokens_per_s_at_most  DOUBLE  tokens that requests may get / time
WITH timed AS (
    SELECT
        *,
        coalesce(lead(start_ns) OVER (PARTITION BY trace_id, device ORDER BY start_ns, slice_id), start_ns + span_ns) - start_ns AS period_ns
    FROM iterations
    WHERE is_outermost AND op_count > 0
)
SELECT
    trace, rank, device, kind,
    count(*) AS iteration_count,
    CAST(sum(tokens) AS BIGINT) AS tokens,
    quantile_cont(span_ns, 0.5) AS p50_ns,
    quantile_cont(span_ns, 0.95) AS p95_ns,
    quantile_cont(span_ns, 0.99) AS p99_ns,
    sum(busy_ns) / nullif(sum(span_ns), 0) AS busy_share,
    CAST(coalesce(sum(greatest(gap_before_ns, 0)), 0) AS BIGINT) AS gap_sum_ns,
    sum(tokens) * 1e9 / nullif(sum(period_ns), 0) AS tokens_per_s,
    sum(new_tokens_at_most) * 1e9 / nullif(sum(period_ns), 0) AS new_tokens_per_s_at_most
FROM timed
GROUP BY trace_id, trace, rank, device, kind
ORDER BY trace_id, device, kind
