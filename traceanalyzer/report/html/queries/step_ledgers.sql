-- One row per step and bucket of a device ($2) of a trace ($1, its name): the step's length on the device, whether it is
-- kept and why not, and the time in the bucket. A step without time in any bucket has one row with bucket NULL.
SELECT
    steps.step, steps.kept, steps.drop_reason,
    steps.end_ns - steps.start_ns AS step_ns,
    ledger.bucket,
    CAST(sum(ledger.dur_ns) AS BIGINT) AS dur_ns
FROM attribution.steps
JOIN canonical.traces USING (trace_id)
LEFT JOIN attribution.ledger_rows AS ledger USING (trace_id, device, step)
WHERE trace = $1 AND device = $2 AND steps.start_ns IS NOT NULL
GROUP BY ALL
ORDER BY min(steps.start_ns), steps.step, dur_ns DESC, bucket
