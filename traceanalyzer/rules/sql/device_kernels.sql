-- One row per device with an analysis window: what its compute kernels do there, by class and by name.
--
-- Times are wall times of kernel_class, which add up to the compute time of the window: no communication kernels.
WITH named AS (
    SELECT
        trace_id,
        device,
        coalesce(name, '(no name)') AS name,
        any_value(class) AS class,
        -- Without operators and their shapes, only libraries' matmuls can be judged, by their names.
        any_value(class = 'other' OR (coalesce(tensor_core, 'unknown') = 'unknown' AND NOT programs.is_pytorch)) AS is_unjudged,
        count(*) AS call_count,
        sum(wall_ns)::BIGINT AS wall_ns,
        round(avg(dur_ns))::BIGINT AS mean_ns
    FROM kernel_class
    JOIN programs USING (trace_id)
    WHERE wall_ns > 0
    GROUP BY trace_id, device, coalesce(name, '(no name)')
),
classes AS (
    SELECT
        trace_id,
        device,
        class,
        sum(call_count)::BIGINT AS call_count,
        sum(wall_ns)::BIGINT AS wall_ns
    FROM named
    GROUP BY trace_id, device, class
),
class_lists AS (
    SELECT
        trace_id,
        device,
        list({'class': class, 'wall_ns': wall_ns, 'call_count': call_count} ORDER BY wall_ns DESC, class) AS kernel_classes
    FROM classes
    GROUP BY trace_id, device
),
name_lists AS (
    SELECT
        trace_id,
        device,
        list(
            {'name': name, 'class': class, 'wall_ns': wall_ns, 'call_count': call_count, 'mean_ns': mean_ns}
            ORDER BY wall_ns DESC, name
        )[1:10] AS top_kernels,
        coalesce(sum(wall_ns) FILTER (WHERE is_unjudged), 0) / sum(wall_ns) AS unjudged_share
    FROM named
    GROUP BY trace_id, device
)
SELECT
    traces.trace,
    windows.device,
    coalesce(class_lists.kernel_classes, []) AS kernel_classes,
    coalesce(name_lists.top_kernels, []) AS top_kernels,
    coalesce(name_lists.unjudged_share, 1) AS unjudged_share,
    peaks.source IS NOT NULL AS peaks_known
FROM windows
JOIN traces USING (trace_id)
LEFT JOIN class_lists USING (trace_id, device)
LEFT JOIN name_lists USING (trace_id, device)
LEFT JOIN device_peaks AS peaks USING (trace_id, device)
ORDER BY windows.trace_id, windows.device
