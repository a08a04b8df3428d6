-- One row per device with GPU work: what hardware_details says of its model; NULL where the model is unknown.
--
-- columns:
--   trace_id            INTEGER  traces.trace_id
--   device              INTEGER  device
--   fp64_tflops         DOUBLE   FP64 without tensor cores
--   fp64_tensor_tflops  DOUBLE   FP64 on tensor cores or matrix cores
--   int8_tops           DOUBLE   INT8 on tensor cores or matrix cores
--   fp4_tflops          DOUBLE   FP4 on tensor cores
--   cache_bytes         BIGINT   largest cache between the memory and the SMs
--   link_gb_per_s       DOUBLE   links to other devices, one direction
WITH matched AS (
    SELECT
        devices.trace_id,
        devices.device,
        min(details.position) AS position
    FROM canonical.devices AS devices
    JOIN hardware_details AS details
      ON regexp_matches(devices.name, details.pattern)
     AND (details.sm_count IS NULL OR devices.sm_count IS NULL OR details.sm_count = devices.sm_count)
    GROUP BY devices.trace_id, devices.device
)
SELECT
    used.trace_id,
    used.device,
    details.fp64_tflops,
    details.fp64_tensor_tflops,
    details.int8_tops,
    details.fp4_tflops,
    details.cache_bytes,
    details.link_gb_per_s
FROM (SELECT DISTINCT trace_id, device FROM canonical.gpu_ops) AS used
LEFT JOIN matched USING (trace_id, device)
LEFT JOIN hardware_details AS details USING (position)
