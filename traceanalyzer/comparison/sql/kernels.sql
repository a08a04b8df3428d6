-- One row per name of a kernel or graph that starts in an analysis window: its launches and time there, on all devices.
SELECT
    coalesce(ops.name, '(no name)') AS name,
    CASE WHEN bool_or(ops.is_comm) THEN 'comm' ELSE coalesce(any_value(names.class), 'other') END AS class,
    count(*) AS launch_count,
    sum(ops.dur_ns)::BIGINT AS dur_ns
FROM gpu_ops AS ops
JOIN windows
    ON windows.trace_id = ops.trace_id
    AND windows.device = ops.device
    AND ops.start_ns >= windows.start_ns
    AND ops.start_ns < windows.end_ns
LEFT JOIN kernel_class_names AS names ON names.name = ops.name
WHERE ops.kind IN ('kernel', 'graph')
GROUP BY coalesce(ops.name, '(no name)')
ORDER BY dur_ns DESC, name
