-- One row per device with GPU work: the peak rates of its hardware, where the model is known.
--
-- Models are matched with hardware_peaks by name, and by SM count where variants differ.
--
-- columns:
--   trace            VARCHAR  name of the trace
--   rank             INTEGER  rank in the job
--   device           INTEGER  device
--   trace_id         INTEGER  traces.trace_id
--   name             VARCHAR  product name
--   vendor           VARCHAR  nvidia, amd, intel, mtia; NULL: unknown
--   sm_count         INTEGER  SMs or compute units
--   arch             INTEGER  compute capability x 10; NULL: unknown or not NVIDIA
--   fp32_tflops      DOUBLE   FP32 without tensor cores; NULL: unknown model
--   tf32_tflops      DOUBLE   TF32 on tensor cores; NULL: the device does not support it, or unknown model
--   half_tflops      DOUBLE   FP16 or BF16 on tensor cores; NULL: the device does not support it, or unknown model
--   fp8_tflops       DOUBLE   FP8 on tensor cores; NULL: the device does not support it, or unknown model
--   memory_gb_per_s  DOUBLE   memory bandwidth; NULL: unknown model
--   source           VARCHAR  data sheet; NULL: unknown model
WITH used AS (
    SELECT DISTINCT
        trace_id,
        device
    FROM gpu_ops
),
matched AS (
    SELECT
        used.trace_id,
        used.device,
        arg_min(peaks.position, peaks.position) AS position
    FROM used
    JOIN devices USING (trace_id, device)
    JOIN hardware_peaks AS peaks
      ON regexp_matches(devices.name, peaks.pattern)
     AND (peaks.sm_count IS NULL OR devices.sm_count IS NULL OR peaks.sm_count = devices.sm_count)
    GROUP BY used.trace_id, used.device
)
SELECT
    traces.trace,
    traces.rank,
    used.device,
    used.trace_id,
    devices.name,
    coalesce(devices.vendor, traces.vendor) AS vendor,
    devices.sm_count,
    coalesce(devices.compute_major * 10 + devices.compute_minor, peaks.arch)::INTEGER AS arch,
    peaks.fp32_tflops,
    peaks.tf32_tflops,
    peaks.half_tflops,
    peaks.fp8_tflops,
    peaks.memory_gb_per_s,
    peaks.source
FROM used
JOIN traces USING (trace_id)
LEFT JOIN devices USING (trace_id, device)
LEFT JOIN matched USING (trace_id, device)
LEFT JOIN hardware_peaks AS peaks USING (position)
