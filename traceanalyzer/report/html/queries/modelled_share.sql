-- The share of the GPU time of a device ($2) of a trace ($1) for which operations and bytes are known.
SELECT coalesce(sum(op_share) FILTER (WHERE status = 'modelled'), 0) AS share
FROM cost_coverage
JOIN canonical.traces USING (trace)
WHERE traces.trace_id = $1 AND cost_coverage.device = $2
