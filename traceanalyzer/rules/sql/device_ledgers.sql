-- One row per device: its analysis window and the buckets that add up to it, largest first.
WITH buckets AS (
    SELECT trace_id, device, bucket, sum(dur_ns)::BIGINT AS dur_ns
    FROM ledger_rows
    WHERE kept
    GROUP BY trace_id, device, bucket
),
-- Of a step in which the window begins, only what is in the window: the time ahead of its first kernel is not.
host_steps AS (
    SELECT
        steps.trace_id, steps.device,
        round(avg(
            steps.host_end_ns - CASE
                WHEN windows.start_ns BETWEEN steps.host_start_ns AND steps.host_end_ns THEN windows.start_ns
                ELSE steps.host_start_ns
            END
        ))::BIGINT AS mean_ns
    FROM attribution.steps AS steps
    JOIN windows USING (trace_id, device)
    WHERE steps.kept
    GROUP BY steps.trace_id, steps.device
)
SELECT
    traces.trace, traces.rank, windows.device,
    any_value(devices.name) AS device_name,
    any_value(windows.window_ns) AS window_ns,
    coalesce(any_value(windows.step_count), 0) AS step_count,
    any_value(windows.step_source) AS step_source,
    any_value(host_steps.mean_ns) FILTER (WHERE windows.step_source IN ('ProfilerStep', 'annotation')) AS marked_step_ns,
    list(buckets.bucket ORDER BY buckets.dur_ns DESC, buckets.bucket) AS names,
    list(buckets.dur_ns ORDER BY buckets.dur_ns DESC, buckets.bucket) AS durations
FROM windows
JOIN traces USING (trace_id)
LEFT JOIN devices USING (trace_id, device)
LEFT JOIN host_steps USING (trace_id, device)
JOIN buckets USING (trace_id, device)
GROUP BY windows.trace_id, traces.trace, traces.rank, windows.device
ORDER BY windows.trace_id, windows.device
