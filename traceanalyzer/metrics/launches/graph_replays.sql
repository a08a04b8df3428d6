-- One row per device with kernels: how much of its kernel time graph replays launched, and what the rest cost in calls.
--
-- Counted are the kernels (not collectives) and whole graphs that start in the analysis window. A kernel is replayed if
-- the call that launched it launches a graph (cudaGraphLaunch, hipGraphLaunch, cuGraphLaunch), or if its graph was
-- recorded.
--
-- columns: trace, rank, device, trace_id
--   kernel_count    BIGINT   kernels and whole graphs
--   kernel_ns       BIGINT   their durations, summed
--   replay_count    BIGINT   calls that launch graphs
--   replayed_count  BIGINT   kernels that graphs launched, and whole graphs
--   replayed_share  DOUBLE   their part of kernel_ns
--   eager_count     BIGINT   kernels that were launched one by one, or whose launch is not in the trace
SELECT
    traces.trace, traces.rank, ops.device, ops.trace_id,
    count(*) AS kernel_count,
    sum(ops.dur_ns)::BIGINT AS kernel_ns,
    count(DISTINCT ops.launch_id) FILTER (WHERE ops.is_graph_launch) AS replay_count,
    count(*) FILTER (WHERE is_replayed) AS replayed_count,
    coalesce(sum(ops.dur_ns) FILTER (WHERE is_replayed), 0) / nullif(sum(ops.dur_ns), 0) AS replayed_share,
    count(*) FILTER (WHERE NOT is_replayed) AS eager_count
FROM (
    SELECT
        gpu_ops.*,
        launching.slice_id IS NOT NULL AS is_graph_launch,
        gpu_ops.kind = 'graph' OR gpu_ops.graph_id IS NOT NULL OR is_graph_launch AS is_replayed
    FROM gpu_ops
    LEFT JOIN (FROM launching_slices WHERE name ILIKE '%GraphLaunch%') AS launching
           ON launching.trace_id = gpu_ops.trace_id AND launching.slice_id = gpu_ops.launch_id
    WHERE gpu_ops.kind IN ('kernel', 'graph') AND NOT gpu_ops.is_comm
) AS ops
JOIN traces USING (trace_id)
JOIN attribution.windows AS windows
  ON windows.trace_id = ops.trace_id
 AND windows.device = ops.device
 AND ops.start_ns >= windows.start_ns
 AND ops.start_ns < windows.end_ns
GROUP BY traces.trace, traces.rank, ops.device, ops.trace_id
