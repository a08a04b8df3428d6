-- One row per device with GPU work: the peak rates of its hardware, where the model is known.
--
-- Models are matched with project_peaks and then hardware_peaks by name, and by SM count where variants differ. A device
-- that the trace does not name has the name in named_device.
--
-- columns: trace, rank, device, trace_id
--   name             VARCHAR  product name; NULL: the trace does not name it, nor does the user
--   name_source      VARCHAR  trace, or user (named_device); NULL: no name
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
    SELECT DISTINCT trace_id, device
    FROM gpu_ops
),
described AS (
    SELECT
        used.trace_id, used.device,
        coalesce(nullif(devices.name, ''), named_device.name) AS name,
        CASE WHEN nullif(devices.name, '') IS NULL THEN 'user' ELSE 'trace' END AS told_by,
        coalesce(
            devices.sm_count,
            CASE WHEN nullif(devices.name, '') IS NULL THEN named_device.sm_count END
        ) AS sm_count,
        devices.vendor,
        devices.compute_major * 10 + devices.compute_minor AS arch
    FROM used
    LEFT JOIN devices USING (trace_id, device)
    LEFT JOIN named_device ON true
),
known AS (
    SELECT *, 0 AS source_order FROM project_peaks
    UNION ALL BY NAME
    SELECT *, 1 AS source_order FROM hardware_peaks
),
models AS (
    SELECT * REPLACE (row_number() OVER (ORDER BY source_order, position) AS position)
    FROM known
),
matched AS (
    SELECT described.trace_id, described.device, min(models.position) AS position
    FROM described
    JOIN models
      ON regexp_matches(described.name, models.pattern)
     AND (models.sm_count IS NULL OR described.sm_count IS NULL OR models.sm_count = described.sm_count)
     AND (models.source_order = 0 OR is_laptop(models.pattern) = is_laptop(described.name))
    GROUP BY described.trace_id, described.device
)
SELECT
    traces.trace, traces.rank, described.device, described.trace_id, described.name,
    CASE WHEN described.name IS NOT NULL THEN told_by END AS name_source,
    coalesce(described.vendor, traces.vendor) AS vendor,
    described.sm_count,
    coalesce(described.arch, peaks.arch)::INTEGER AS arch,
    peaks.fp32_tflops, peaks.tf32_tflops, peaks.half_tflops, peaks.fp8_tflops, peaks.memory_gb_per_s,
    peaks.source
FROM described
JOIN traces USING (trace_id)
LEFT JOIN matched USING (trace_id, device)
LEFT JOIN models AS peaks USING (position)
