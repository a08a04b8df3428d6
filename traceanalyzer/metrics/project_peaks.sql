-- One row per accelerator model that the project's settings describe: its peak rates, which win over hardware_peaks.
--
-- The columns and their units are those of hardware_peaks. Rows come from `[devices.peaks]` in traceanalyzer.toml
-- (docs/settings.md); without any, the metric is empty.
--
-- columns:
--   position         INTEGER  order; the first match decides
--   pattern          VARCHAR  RE2 regular expression, searched for in the device's name
--   sm_count         INTEGER  SMs or compute units of this variant; NULL: any
--   arch             INTEGER  compute capability x 10; NULL: not NVIDIA
--   fp32_tflops      DOUBLE   FP32 without tensor cores
--   tf32_tflops      DOUBLE   TF32 on tensor cores
--   half_tflops      DOUBLE   FP16 or BF16 on tensor cores
--   fp8_tflops       DOUBLE   FP8 on tensor cores
--   memory_gb_per_s  DOUBLE   memory bandwidth
--   source           VARCHAR  where the numbers come from, as the settings say
SELECT
    NULL::INTEGER AS position,
    NULL::VARCHAR AS pattern,
    NULL::INTEGER AS sm_count,
    NULL::INTEGER AS arch,
    NULL::DOUBLE AS fp32_tflops,
    NULL::DOUBLE AS tf32_tflops,
    NULL::DOUBLE AS half_tflops,
    NULL::DOUBLE AS fp8_tflops,
    NULL::DOUBLE AS memory_gb_per_s,
    NULL::VARCHAR AS source
WHERE false
