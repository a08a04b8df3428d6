-- One row per trace and device: what it is, and how much work it was seen doing.
WITH worked AS (
    SELECT trace_id, device, count(*) AS gpu_op_count, count(DISTINCT stream) AS stream_count
    FROM canonical.gpu_ops
    GROUP BY trace_id, device
)
SELECT
    traces.trace, traces.rank,
    coalesce(devices.device, worked.device) AS device,
    recordings.rank_id, devices.name, devices.vendor, devices.sm_count, devices.memory_bytes,
    devices.compute_major, devices.compute_minor, devices.gpu,
    coalesce(shared_gpus.process_count, 1) AS process_count,
    shared_gpus.busy_ns / nullif(shared_gpus.span_ns, 0) AS gpu_busy_share,
    shared_gpus.own_share,
    coalesce(worked.gpu_op_count, 0) AS gpu_op_count,
    coalesce(worked.stream_count, 0) AS stream_count
FROM canonical.devices
FULL JOIN worked ON worked.trace_id = devices.trace_id AND worked.device = devices.device
JOIN canonical.traces ON traces.trace_id = coalesce(devices.trace_id, worked.trace_id)
JOIN recordings ON recordings.trace_id = traces.trace_id
LEFT JOIN shared_gpus
       ON shared_gpus.trace_id = traces.trace_id
      AND shared_gpus.device = coalesce(devices.device, worked.device)
ORDER BY traces.trace_id, device
