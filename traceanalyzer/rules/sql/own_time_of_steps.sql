-- One row per device and kept step: its time without communication.
SELECT
    traces.trace, ledger_rows.device, ledger_rows.step,
    coalesce(
        sum(ledger_rows.dur_ns) FILTER (
            WHERE NOT starts_with(ledger_rows.bucket, 'dev.comm')
              AND ledger_rows.bucket NOT IN ('dev.straggler_wait', 'host.comm_cpu')
        ),
        0
    )::BIGINT AS own_ns
FROM ledger_rows
JOIN traces USING (trace_id)
WHERE ledger_rows.kept AND ledger_rows.step IS NOT NULL
GROUP BY traces.trace, ledger_rows.device, ledger_rows.step
ORDER BY traces.trace, ledger_rows.device, ledger_rows.step
