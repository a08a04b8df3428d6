-- One row per device: its analysis window.
SELECT
    traces.trace, traces.rank, windows.device, windows.trace_id, windows.window_ns, windows.step_count,
    windows.step_spread, windows.launch_link_share, windows.mode
FROM windows
JOIN traces USING (trace_id)
ORDER BY windows.trace_id, windows.device
