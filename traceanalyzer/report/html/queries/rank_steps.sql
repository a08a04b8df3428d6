-- One row per rank and kept step: the time of the step before the rank waits for others, which is the step's ledger
-- without waits for collectives, messages and stragglers; of a rank with several devices the slowest one's.
WITH own AS (
    SELECT
        traces.rank, ledger.device, ledger.step,
        CAST(sum(ledger.dur_ns) FILTER (
            WHERE ledger.bucket NOT IN ('dev.comm_transfer', 'dev.comm_p2p', 'dev.straggler_wait')
        ) AS BIGINT) AS own_ns
    FROM attribution.ledger_rows AS ledger
    JOIN canonical.traces USING (trace_id)
    WHERE ledger.kept AND ledger.step IS NOT NULL AND traces.rank IS NOT NULL
    GROUP BY traces.rank, ledger.trace_id, ledger.device, ledger.step
)
SELECT rank, step, max(coalesce(own_ns, 0)) AS own_ns
FROM own
GROUP BY rank, step
ORDER BY rank, step
