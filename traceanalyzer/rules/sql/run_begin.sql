-- The rank with which the run's path begins, where it begins later than the window does, and how much later.
SELECT traces.rank, CAST(sum(rows.dur_ns) AS BIGINT) AS dur_ns
FROM attribution.run_rows AS rows
JOIN canonical.traces USING (trace_id)
WHERE rows.row_id IS NULL
GROUP BY traces.rank
ORDER BY dur_ns DESC, traces.rank
LIMIT 1
