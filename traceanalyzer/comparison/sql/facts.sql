-- One row per trace and device, or per trace without devices: what distinguishes two recordings besides their times.
WITH versions AS (
    SELECT
        trace_id,
        max(value) FILTER (WHERE key = 'cuda_driver_version') AS cuda_driver,
        max(value) FILTER (WHERE key = 'cuda_runtime_version') AS cuda_runtime,
        max(value) FILTER (WHERE key = 'cupti_version') AS cupti,
        max(value) FILTER (WHERE key IN ('hip_driver_version', 'hip_runtime_version', 'rocm_version')) AS rocm,
        max(value) FILTER (WHERE key IN ('pytorch_version', 'torch_version')) AS pytorch,
        max(value) FILTER (WHERE key = 'nsys.version') AS nsys,
        max(TRY_CAST(value AS JSON) ->> 'NvDriverVersion') FILTER (WHERE key = 'nsys.system') AS driver
    FROM metadata
    GROUP BY trace_id
)
SELECT
    traces.format, traces.recorder, traces.framework, traces.vendor AS trace_vendor, traces.world_size,
    traces.rank,
    CASE WHEN traces.first_ns > 946684800000000000 THEN traces.first_ns END AS taken_ns,  -- a clock, not a count from 0
    traces.truncated, traces.has_shapes, traces.has_stacks, traces.has_memory, traces.has_sync_events,
    versions.* EXCLUDE (trace_id),
    devices.device, devices.name AS gpu, devices.vendor, devices.sm_count, devices.memory_bytes,
    windows.device IS NOT NULL AS has_work
FROM traces
LEFT JOIN versions USING (trace_id)
LEFT JOIN devices USING (trace_id)
LEFT JOIN windows ON windows.trace_id = traces.trace_id AND windows.device = devices.device
ORDER BY traces.trace_id, devices.device
