-- One row: the tenth and ninetieth percentile of the kept steps' lengths on a device, of the trace and device asked for.
SELECT
    CAST(quantile_disc(steps.end_ns - steps.start_ns, 0.1) AS BIGINT) AS p10_ns,
    CAST(quantile_disc(steps.end_ns - steps.start_ns, 0.9) AS BIGINT) AS p90_ns
FROM attribution.steps
JOIN canonical.traces USING (trace_id)
WHERE kept AND trace = $1 AND device = $2
