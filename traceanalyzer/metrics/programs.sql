-- One row per trace: what recorded it and whether PyTorch ran in it, as advice differs by both.
--
-- columns:
--   trace        VARCHAR  name of the trace
--   rank         INTEGER  rank in the job
--   trace_id     INTEGER  key of the canonical tables
--   recorder     VARCHAR  nsys, else profiler: torch.profiler and what writes its format
--   is_pytorch   BOOLEAN  operators or kernels of PyTorch are in the trace, or its own profiler recorded it
SELECT
    traces.trace,
    traces.rank,
    traces.trace_id,
    CASE WHEN traces.format = 'nsys' THEN 'nsys' ELSE 'profiler' END AS recorder,
    traces.format <> 'nsys' OR coalesce(kernels.found, FALSE) OR coalesce(operators.found, FALSE) AS is_pytorch
FROM canonical.traces AS traces
LEFT JOIN (
    SELECT trace_id, bool_or(contains(name, 'at::native')) AS found
    FROM gpu_ops
    GROUP BY trace_id
) AS kernels USING (trace_id)
LEFT JOIN (
    SELECT trace_id, bool_or(starts_with(name, 'aten::')) AS found
    FROM host_slices
    WHERE category IN ('cpu_op', 'annotation')
    GROUP BY trace_id
) AS operators USING (trace_id)
