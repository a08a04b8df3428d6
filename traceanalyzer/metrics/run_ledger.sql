-- One row per rank, device and bucket on the run's path: where the time of the run went, all ranks together.
--
-- At each moment one device is the one that all others wait for; its ledger is the run's. What the others waited is not
-- counted again, and a rank that was late because it had itself waited for another one passes the blame on. The rows add
-- up to the window of the slowest device. A run of one device has its own window here. Without rows the ranks cannot be
-- followed together: abstains says why, in a row of its own.
--
-- columns:
--   rank         INTEGER  rank that the run waited for
--   trace        VARCHAR  its trace
--   device       INTEGER  its device
--   bucket       VARCHAR  where its time went, as in time_ledger
--   dur_ns       BIGINT   time
--   share        DOUBLE   dur_ns as a share of the run's window
--   per_step_ns  DOUBLE   dur_ns a step of the slowest device; NULL without steps
--   abstains     VARCHAR  why nothing can be said, in the only row; NULL: it can
WITH slowest AS (
    SELECT
        window_ns,
        step_count,
        run_abstains
    FROM attribution.windows
    ORDER BY window_ns DESC, trace_id, device
    LIMIT 1
),
buckets AS (
    SELECT
        trace_id,
        device,
        bucket,
        CAST(SUM(dur_ns) AS BIGINT) AS dur_ns
    FROM attribution.run_rows
    GROUP BY trace_id, device, bucket
)
SELECT
    traces.rank,
    traces.trace,
    buckets.device,
    buckets.bucket,
    buckets.dur_ns,
    buckets.dur_ns / slowest.window_ns AS share,
    buckets.dur_ns / NULLIF(slowest.step_count, 0) AS per_step_ns,
    NULL::VARCHAR AS abstains
FROM buckets
CROSS JOIN slowest
INNER JOIN canonical.traces AS traces USING (trace_id)
UNION ALL
SELECT
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    NULL,
    run_abstains
FROM slowest
WHERE run_abstains IS NOT NULL
ORDER BY dur_ns DESC, rank, device, bucket
