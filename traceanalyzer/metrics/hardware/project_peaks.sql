-- One row per accelerator model that the project's settings describe: its peak rates, which win over hardware_peaks.
--
-- The columns and their units are those of hardware_peaks and hardware_details. A row takes the place of the one in
-- hardware_peaks: rates that it leaves out are unknown. Of hardware_details it replaces only what it gives. Rows come from
-- `[devices.peaks]` in traceanalyzer.toml (docs/settings.md); without any, the metric is empty.
--
-- columns:
--   position            INTEGER  order; the first match decides
--   pattern             VARCHAR  RE2 regular expression, searched for in the device's name
--   sm_count            INTEGER  SMs or compute units of this variant; NULL: any
--   arch                INTEGER  compute capability x 10; NULL: not NVIDIA
--   fp32_tflops         DOUBLE   FP32 without tensor cores
--   tf32_tflops         DOUBLE   TF32 on tensor cores
--   half_tflops         DOUBLE   FP16 or BF16 on tensor cores
--   fp8_tflops          DOUBLE   FP8 on tensor cores
--   memory_gb_per_s     DOUBLE   memory bandwidth
--   fp64_tflops         DOUBLE   FP64 without tensor cores
--   fp64_tensor_tflops  DOUBLE   FP64 on tensor cores or matrix cores
--   fp32_matrix_tflops  DOUBLE   FP32 on matrix cores, without rounding inputs
--   int8_tops           DOUBLE   INT8 on tensor cores or matrix cores
--   fp4_tflops          DOUBLE   FP4 on tensor cores
--   cache_bytes         BIGINT   largest cache between the memory and the SMs
--   link_gb_per_s       DOUBLE   links to other devices, one direction
--   source              VARCHAR  where the numbers come from, as the settings say
SELECT
    NULL::INTEGER AS position, NULL::VARCHAR AS pattern, NULL::INTEGER AS sm_count, NULL::INTEGER AS arch,
    NULL::DOUBLE AS fp32_tflops, NULL::DOUBLE AS tf32_tflops, NULL::DOUBLE AS half_tflops,
    NULL::DOUBLE AS fp8_tflops, NULL::DOUBLE AS memory_gb_per_s, NULL::DOUBLE AS fp64_tflops,
    NULL::DOUBLE AS fp64_tensor_tflops, NULL::DOUBLE AS fp32_matrix_tflops, NULL::DOUBLE AS int8_tops,
    NULL::DOUBLE AS fp4_tflops, NULL::BIGINT AS cache_bytes, NULL::DOUBLE AS link_gb_per_s,
    NULL::VARCHAR AS source
WHERE false
