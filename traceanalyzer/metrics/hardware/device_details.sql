-- One row per device with GPU work: what is known of its model beside peak rates; NULL where it is not.
--
-- A device has its name from device_peaks. Each number is that of the project's settings (project_peaks), else that of
-- hardware_details.
--
-- columns: trace_id, device
--   fp64_tflops         DOUBLE   FP64 without tensor cores
--   fp64_tensor_tflops  DOUBLE   FP64 on tensor cores or matrix cores
--   fp32_matrix_tflops  DOUBLE   FP32 on matrix cores, without rounding inputs
--   int8_tops           DOUBLE   INT8 on tensor cores or matrix cores
--   fp4_tflops          DOUBLE   FP4 on tensor cores
--   cache_bytes         BIGINT   largest cache between the memory and the SMs
--   link_gb_per_s       DOUBLE   links to other devices, one direction
WITH matched AS (
    SELECT
        devices.trace_id, devices.device,
        min(own.position) AS own_position,
        min(details.position) AS position
    FROM device_peaks AS devices
    LEFT JOIN project_peaks AS own
           ON regexp_matches(devices.name, own.pattern)
          AND (own.sm_count IS NULL OR devices.sm_count IS NULL OR own.sm_count = devices.sm_count)
    LEFT JOIN hardware_details AS details
           ON regexp_matches(devices.name, details.pattern)
          AND (details.sm_count IS NULL OR devices.sm_count IS NULL OR details.sm_count = devices.sm_count)
          AND is_laptop(details.pattern) = is_laptop(devices.name)
    GROUP BY devices.trace_id, devices.device
)
SELECT
    matched.trace_id, matched.device,
    coalesce(own.fp64_tflops, details.fp64_tflops) AS fp64_tflops,
    coalesce(own.fp64_tensor_tflops, details.fp64_tensor_tflops) AS fp64_tensor_tflops,
    coalesce(own.fp32_matrix_tflops, details.fp32_matrix_tflops) AS fp32_matrix_tflops,
    coalesce(own.int8_tops, details.int8_tops) AS int8_tops,
    coalesce(own.fp4_tflops, details.fp4_tflops) AS fp4_tflops,
    coalesce(own.cache_bytes, details.cache_bytes) AS cache_bytes,
    coalesce(own.link_gb_per_s, details.link_gb_per_s) AS link_gb_per_s
FROM matched
LEFT JOIN project_peaks AS own ON own.position = matched.own_position
LEFT JOIN hardware_details AS details ON details.position = matched.position
