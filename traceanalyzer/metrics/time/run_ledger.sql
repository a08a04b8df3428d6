-- One row per rank, device and bucket on the run's path: where the time of the run went, over all ranks.
--
-- At each moment, all others wait for one device, and its ledger is the run's ledger. The time that the others wait is
-- not counted again. A rank that is late because it waited for another rank passes the blame on to that rank. The rows
-- add up to the window of the slowest device. For a run with one device, the rows are its own window. If the ranks
-- cannot be followed together, the only row has the reason in abstains.
--
-- columns:
--   rank         INTEGER  rank that the run waited for
--   trace        VARCHAR  its trace
--   device       INTEGER  its device
--   bucket       VARCHAR  where the time went, as in time_ledger
--   dur_ns       BIGINT   time in the bucket
--   share        DOUBLE   dur_ns as a share of the run's window
--   per_step_ns  DOUBLE   dur_ns per step of the slowest device; NULL: no steps
--   abstains     VARCHAR  why there is no ledger, in the only row; NULL: there is one
WITH slowest AS (
    SELECT window_ns, step_count, run_abstains
    FROM attribution.windows
    ORDER BY window_ns DESC, trace_id, device
    LIMIT 1
),
buckets AS (
    SELECT trace_id, device, bucket, CAST(SUM(dur_ns) AS BIGINT) AS dur_ns
    FROM attribution.run_rows
    GROUP BY trace_id, device, bucket
)
SELECT
    traces.rank, traces.trace, buckets.device, buckets.bucket, buckets.dur_ns,
    buckets.dur_ns / slowest.window_ns AS share,
    buckets.dur_ns / NULLIF(slowest.step_count, 0) AS per_step_ns,
    NULL::VARCHAR AS abstains
FROM buckets
CROSS JOIN slowest
INNER JOIN canonical.traces AS traces USING (trace_id)
UNION ALL
SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, run_abstains
FROM slowest
WHERE run_abstains IS NOT NULL
ORDER BY dur_ns DESC, rank, device, bucket
