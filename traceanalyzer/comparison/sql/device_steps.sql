-- One row per trace and device with GPU work: the lengths of its kept steps in the order in which they ran.
SELECT
    traces.trace, windows.device, windows.mode, windows.step_source,
    coalesce(
        list(steps.end_ns - steps.start_ns ORDER BY steps.start_ns, steps.step) FILTER (WHERE steps.kept), []
    ) AS steps_ns
FROM windows
JOIN traces USING (trace_id)
LEFT JOIN attribution.steps AS steps USING (trace_id, device)
GROUP BY windows.trace_id, traces.trace, windows.device, windows.mode, windows.step_source
ORDER BY windows.trace_id, windows.device
