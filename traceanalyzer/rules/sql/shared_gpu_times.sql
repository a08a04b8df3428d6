-- One row per device whose GPU also runs work of another process: the GPU's time, and the part of the device's process.
SELECT trace, device, gpu, process_count, span_ns, busy_ns, kernel_ns, own_busy_ns, overlapped_ns
FROM shared_gpus
ORDER BY trace_id, device
