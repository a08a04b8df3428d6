-- One row per interval that may be a window: annotations and operators whose names contain a text, in file order.
SELECT slice_id, thread_id, name, start_ns, start_ns + dur_ns AS end_ns
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND category IN ('annotation', 'cpu_op')
  AND contains(name, $part)
ORDER BY slice_id
