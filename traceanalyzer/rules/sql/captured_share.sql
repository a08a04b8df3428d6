-- One row: the share of the GPU time of replayed graphs for which a capture names the operator.
SELECT coalesce(sum(ops.dur_ns) FILTER (WHERE owners.call_id IS NOT NULL), 0) / nullif(sum(ops.dur_ns), 0) AS captured_share
FROM gpu_ops AS ops
JOIN launching_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
LEFT JOIN attribution.captured_owners AS owners ON owners.trace_id = ops.trace_id AND owners.op_id = ops.op_id
WHERE contains(calls.name, 'GraphLaunch')
