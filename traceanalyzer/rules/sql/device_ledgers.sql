-- One row per device: its analysis window and the buckets that add up to it, largest first.
WITH buckets AS (
    SELECT
        trace_id,
        device,
        bucket,
        sum(dur_ns)::BIGINT AS dur_ns
    FROM ledger_rows
    WHERE kept
    GROUP BY trace_id, device, bucket
)
SELECT
    traces.trace,
    traces.rank,
    windows.device,
    any_value(devices.name) AS device_name,
    any_value(windows.window_ns) AS window_ns,
    coalesce(any_value(windows.step_count), 0) AS step_count,
    any_value(windows.step_source) AS step_source,
    list(buckets.bucket ORDER BY buckets.dur_ns DESC, buckets.bucket) AS names,
    list(buckets.dur_ns ORDER BY buckets.dur_ns DESC, buckets.bucket) AS durations
FROM windows
JOIN traces USING (trace_id)
LEFT JOIN devices USING (trace_id, device)
JOIN buckets USING (trace_id, device)
GROUP BY windows.trace_id, traces.trace, traces.rank, windows.device
ORDER BY windows.trace_id, windows.device
