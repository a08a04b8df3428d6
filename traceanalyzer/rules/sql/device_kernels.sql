-- One row per device with an analysis window: what its compute kernels do there, by class and by name.
--
-- Times are wall times of kernel_class, and of graphs that are recorded whole the rest of the compute time. They add up
-- to the compute time of the window: no communication kernels.
WITH kernels AS (
    SELECT
        trace_id, device,
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
graphs AS (
    SELECT
        ops.trace_id, ops.device, ops.name,
        count(*) AS call_count,
        sum(ops.dur_ns) AS dur_ns,
        round(avg(ops.dur_ns))::BIGINT AS mean_ns
    FROM gpu_ops AS ops
    JOIN windows
      ON windows.trace_id = ops.trace_id
     AND windows.device = ops.device
     AND ops.start_ns >= windows.start_ns
     AND ops.start_ns < windows.end_ns
    WHERE ops.kind = 'graph'
    GROUP BY ops.trace_id, ops.device, ops.name
),
named AS (
    SELECT * FROM kernels
    UNION ALL
    SELECT
        graphs.trace_id, graphs.device, graphs.name,
        'graph' AS class,
        TRUE AS is_unjudged, graphs.call_count,
        round(rest.rest_ns * graphs.dur_ns / sum(graphs.dur_ns) OVER (PARTITION BY graphs.trace_id, graphs.device))::BIGINT AS wall_ns,
        graphs.mean_ns
    FROM graphs
    JOIN (
        SELECT computing.trace_id, computing.device, computing.compute_ns - coalesce(sum(kernels.wall_ns), 0) AS rest_ns
        FROM (
            SELECT trace_id, device, sum(dur_ns) AS compute_ns
            FROM ledger_rows
            WHERE kept AND bucket = 'compute'
            GROUP BY trace_id, device
        ) AS computing
        LEFT JOIN kernels USING (trace_id, device)
        GROUP BY computing.trace_id, computing.device, computing.compute_ns
    ) AS rest USING (trace_id, device)
    WHERE rest.rest_ns > 0
),
classes AS (
    SELECT
        trace_id, device, class,
        sum(call_count)::BIGINT AS call_count,
        sum(wall_ns)::BIGINT AS wall_ns,
        sum(wall_ns) / sum(sum(wall_ns)) OVER (PARTITION BY trace_id, device) AS share
    FROM named
    GROUP BY trace_id, device, class
),
class_lists AS (
    SELECT
        trace_id, device,
        list(
            {'name': class, 'wall_ns': wall_ns, 'share': share, 'call_count': call_count}
            ORDER BY wall_ns DESC, class
        ) AS kernel_classes
    FROM classes
    GROUP BY trace_id, device
),
name_lists AS (
    SELECT
        trace_id, device,
        list(
            {
                'name': name, 'kernel_class': class, 'wall_ns': wall_ns,
                'share': wall_ns / windows.window_ns,
                'call_count': call_count, 'mean_ns': mean_ns,
            }
            ORDER BY wall_ns DESC, name
        )[1:10] AS top_kernels,
        coalesce(sum(wall_ns) FILTER (WHERE is_unjudged), 0) / sum(wall_ns) AS unjudged_share
    FROM named
    JOIN windows USING (trace_id, device)
    GROUP BY trace_id, device
)
SELECT
    traces.trace, windows.device,
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
