-- The roofs of a device ($2) of a trace ($1) for the products that ran on it: one row per precision (NULL: only its
-- memory's), with the time of the operators under it. No rows where its memory bandwidth is unknown.
SELECT
    peaks.name, peaks.memory_gb_per_s, floors.precision,
    max(floors.peak_tflops) AS peak_tflops,
    CAST(sum(floors.dur_ns) AS BIGINT) AS dur_ns
FROM device_peaks AS peaks
JOIN operator_floors AS floors USING (trace_id, device)
WHERE peaks.trace_id = $1 AND peaks.device = $2 AND peaks.memory_gb_per_s IS NOT NULL
GROUP BY ALL
ORDER BY dur_ns DESC, floors.precision
