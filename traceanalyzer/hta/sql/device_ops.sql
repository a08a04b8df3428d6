-- One row per GPU operation whose launch call is in the trace, in file order.
SELECT op_id, device, coalesce(stream, 0) AS stream, name, start_ns, start_ns + dur_ns AS end_ns, launch_id
FROM canonical.gpu_ops
WHERE trace_id = $trace_id
  AND launch_id IS NOT NULL
ORDER BY op_id
