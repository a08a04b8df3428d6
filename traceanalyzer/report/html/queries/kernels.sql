-- One row per name of a kernel that starts in the analysis window of its device, all devices together, longest first:
-- launches, sum and mean of durations, longest, and the share of the sum over all kernels. Kernels that run at once
-- count in full.
WITH named AS (
    SELECT
        ops.name,
        count(*) AS launch_count,
        CAST(sum(ops.dur_ns) AS BIGINT) AS sum_ns,
        max(ops.dur_ns) AS max_ns
    FROM canonical.gpu_ops AS ops
    JOIN attribution.windows AS windows USING (trace_id, device)
    WHERE ops.kind = 'kernel' AND ops.start_ns >= windows.start_ns AND ops.start_ns < windows.end_ns
    GROUP BY ops.name
)
SELECT
    named.name,
    coalesce(classes.class, 'other') AS class,
    launch_count, sum_ns,
    CAST(sum_ns // launch_count AS BIGINT) AS mean_ns,
    max_ns,
    sum_ns / nullif(sum(sum_ns) OVER (), 0) AS share
FROM named
LEFT JOIN (SELECT name, min(class) AS class FROM kernel_class_names GROUP BY name) AS classes ON classes.name = named.name
ORDER BY sum_ns DESC, named.name
