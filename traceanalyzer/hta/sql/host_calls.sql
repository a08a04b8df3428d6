-- One row per operator and per call of a runtime or driver, in file order.
SELECT
    slice_id, thread_id,
    regexp_replace(name, '_v[0-9]+$', '') AS name,
    start_ns,
    start_ns + dur_ns AS end_ns,
    category <> 'cpu_op' AS is_call,
    correlation
FROM canonical.host_slices
WHERE trace_id = $trace_id
  AND category IN ('cpu_op', 'runtime', 'driver')
ORDER BY slice_id
