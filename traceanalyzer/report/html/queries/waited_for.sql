-- What the run waited for while it waited for a rank ($1), largest first.
SELECT rows.bucket, CAST(sum(rows.dur_ns) AS BIGINT) AS dur_ns
FROM attribution.run_rows AS rows
JOIN canonical.traces USING (trace_id)
WHERE traces.rank = $1
GROUP BY rows.bucket
ORDER BY dur_ns DESC, rows.bucket
LIMIT 3
