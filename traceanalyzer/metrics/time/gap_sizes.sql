-- One row per trace, device, kind of GPU work and gap size: how many gaps between work of the kind are at least this
-- long.
--
-- A gap is a stretch, inside the span of the kind, in which no work of the kind runs on any stream. Kinds are kernel,
-- op and op_no_graph of engine_time; sizes are 10 µs, 100 µs, 1 ms, 5 ms and 500 ms. Gaps in the row of a larger size
-- are also in the rows of all smaller sizes.
--
-- columns: trace, rank, device
--   engine      VARCHAR  kind of work
--   at_least_ns BIGINT   shortest gap that counts
--   gap_count   BIGINT   gaps
--   gap_sum_ns  BIGINT   sum of their lengths
WITH sizes (at_least_ns) AS (
    VALUES (10000::BIGINT), (100000), (1000000), (5000000), (500000000)
),
gaps AS (
    SELECT
        trace_id, device, engine,
        lead(start_ns) OVER (PARTITION BY trace_id, device, engine ORDER BY start_ns) - start_ns - dur_ns AS dur_ns
    FROM device_activity
    WHERE engine IN ('kernel', 'op', 'op_no_graph')
),
kinds AS (
    SELECT DISTINCT trace_id, device, engine
    FROM (
        SELECT trace_id, device, unnest(engines_of(kind, FALSE, NULL, FALSE, FALSE)) AS engine
        FROM (SELECT DISTINCT trace_id, device, kind FROM gpu_ops) AS worked
    ) AS counted
    WHERE engine IN ('kernel', 'op', 'op_no_graph')
)
SELECT
    trace, rank, kinds.device, kinds.engine, at_least_ns,
    count(gaps.dur_ns) AS gap_count,
    CAST(coalesce(sum(gaps.dur_ns), 0) AS BIGINT) AS gap_sum_ns
FROM kinds
CROSS JOIN sizes
JOIN canonical.traces USING (trace_id)
LEFT JOIN gaps
       ON gaps.trace_id = traces.trace_id
      AND gaps.device = kinds.device
      AND gaps.engine = kinds.engine
      AND gaps.dur_ns >= at_least_ns
GROUP BY traces.trace_id, trace, rank, kinds.device, kinds.engine, at_least_ns
ORDER BY traces.trace_id, kinds.device, kinds.engine, at_least_ns
