-- One row per device of a trace with several: the thread that launches most of its kernels, and how long it computes.
SELECT
    windows.trace_id, windows.device, windows.compute_ns,
    mode(launches.thread_id ORDER BY launches.thread_id) AS thread_id
FROM windows
JOIN gpu_ops AS ops USING (trace_id, device)
JOIN launching_slices AS launches ON launches.trace_id = ops.trace_id AND launches.slice_id = ops.launch_id
WHERE ops.kind = 'kernel'
  AND windows.trace_id IN (SELECT trace_id FROM windows GROUP BY trace_id HAVING count(*) > 1)
GROUP BY windows.trace_id, windows.device, windows.compute_ns
ORDER BY windows.trace_id, windows.device
