-- One row per trace, device, kind of GPU work and size: how many gaps between such work are at least so long, and their sum.
--
-- A gap is a stretch of the kind's own span in which none of it runs on any stream. Kinds are kernel, op and op_no_graph of
-- engine_time; sizes are 10 µs, 100 µs, 1 ms, 5 ms and 500 ms. Rows of smaller sizes include the larger ones.
--
-- columns:
--   trace       VARCHAR  name of the trace
--   rank        INTEGER  rank in the job
--   device      INTEGER  device
--   engine      VARCHAR  kind of work
--   at_least_ns BIGINT   shortest gap that counts
--   gap_count   BIGINT   gaps
--   gap_sum_ns  BIGINT   their length together
WITH ops AS (
    SELECT
        {
            'trace_id': trace_id,
            'device': device,
            'engine': unnest(
                CASE kind
                    WHEN 'kernel' THEN ['op', 'op_no_graph', 'kernel']
                    WHEN 'graph' THEN ['op']
                    ELSE ['op', 'op_no_graph']
                END
            )
        } AS key,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM gpu_ops
),
sizes (at_least_ns) AS (
    VALUES (10000::BIGINT), (100000), (1000000), (5000000), (500000000)
),
gaps AS (
    SELECT key, end_ns - start_ns AS dur_ns
    FROM interval_gaps('ops')
),
keys AS (
    SELECT DISTINCT key FROM ops
)
SELECT
    trace,
    rank,
    keys.key.device AS device,
    keys.key.engine AS engine,
    at_least_ns,
    count(gaps.dur_ns) AS gap_count,
    CAST(coalesce(sum(gaps.dur_ns), 0) AS BIGINT) AS gap_sum_ns
FROM keys
CROSS JOIN sizes
JOIN canonical.traces ON traces.trace_id = keys.key.trace_id
LEFT JOIN gaps ON gaps.key = keys.key AND gaps.dur_ns >= at_least_ns
GROUP BY traces.trace_id, trace, rank, keys.key, at_least_ns
ORDER BY traces.trace_id, device, engine, at_least_ns
