-- One row per trace of the run, in its order: how to record what the host does between recorded calls.
SELECT hint
FROM trace_hints
WHERE what = 'host_activity'
ORDER BY trace_id
