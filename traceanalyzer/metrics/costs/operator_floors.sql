-- One row per modelled call with GPU work: the least time that the device's data sheet allows for it, and what limits it.
--
-- The floor is the longer of operations / peak and least bytes / memory bandwidth. The peak is that of the first
-- operand's type: FP32 products on tensor cores where a kernel's name says TF32, else without (AMD's matrix cores take
-- FP32 as it is); never the rate for structured sparsity. Operators that only move data have no compute peak. No call
-- can take less than its floor. Where one seems to, either its bytes fit into the largest cache, so memory was not read
-- (cache), or a peak, a type or a clock differs from what is assumed here (suspect).
--
-- What limits a call: compute or memory, the roof that it comes close to (its floor is half of its time or more);
-- launch: the host took longer for the call than the device; latency: its kernels are shorter than 5 us on average, so
-- starting and ending them takes longer than their work; compute or memory below: neither, it is far from that roof.
--
-- columns: trace, rank, device, trace_id
--   slice_id          BIGINT   the call (host_slices.slice_id)
--   step              BIGINT   step of the device; NULL: outside steps
--   operator          VARCHAR  operator
--   family            VARCHAR  as in operator_models
--   input_shapes      VARCHAR  shapes of its inputs as written, a JSON list
--   input_types       VARCHAR  types of its inputs as written, a JSON list
--   precision         VARCHAR  peak that applies: fp64, fp32, tf32, half, fp8, fp4, int8; NULL: no products, or unknown type
--   peak_tflops       DOUBLE   that peak; NULL: unknown
--   flops             HUGEINT  operations, as in operator_costs
--   model_flops       HUGEINT  operations that the model asks for, as in operator_costs
--   flops_least       HUGEINT  the fewest operations that it can execute, as in operator_costs
--   flops_most        HUGEINT  the most
--   model_flops_least HUGEINT  the same of what the model asks for
--   model_flops_most  HUGEINT  the most of it
--   size_bytes        HUGEINT  least bytes, as in operator_costs
--   op_sum_ns         BIGINT   sum of the durations of its GPU operations
--   dur_ns            BIGINT   time in which at least one of its GPU operations runs
--   compute_floor_ns  DOUBLE   operations / peak; NULL: unknown
--   memory_floor_ns   DOUBLE   least bytes, as stored / memory bandwidth; NULL: unknown
--   floor_ns          DOUBLE   the longer of both; NULL: a part that could be the longer one is unknown
--   roof              VARCHAR  compute or memory: which of both is the longer; NULL: unknown
--   headroom_ns       DOUBLE   dur_ns - floor_ns; negative: impossible, see status
--   status            VARCHAR  plausible, cache or suspect; NULL: no floor
--   limited_by        VARCHAR  compute, memory, launch, latency, compute below or memory below; NULL: no floor
WITH typed AS (
    SELECT
        costs.*,
        CASE
            WHEN costs.family NOT IN ('matrix', 'convolution', 'attention') THEN NULL
            WHEN element_type = 'double' THEN 'fp64'
            WHEN element_type = 'float' THEN if(uses_tf32, 'tf32', 'fp32')
            WHEN element_type IN ('c10::Half', 'c10::BFloat16') THEN 'half'
            WHEN starts_with(element_type, 'c10::Float8') THEN 'fp8'
            WHEN starts_with(element_type, 'c10::Float4') THEN 'fp4'
            WHEN element_type IN ('signed char', 'char', 'unsigned char') THEN 'int8'
        END AS precision
    FROM operator_costs AS costs
    WHERE op_count > 0
),
roofs AS (
    SELECT
        typed.*,
        CASE precision
            WHEN 'fp64' THEN coalesce(details.fp64_tensor_tflops, details.fp64_tflops)
            WHEN 'fp32' THEN greatest(details.fp32_matrix_tflops, peaks.fp32_tflops)
            WHEN 'tf32' THEN peaks.tf32_tflops
            WHEN 'half' THEN peaks.half_tflops
            WHEN 'fp8' THEN peaks.fp8_tflops
            WHEN 'fp4' THEN details.fp4_tflops
            WHEN 'int8' THEN details.int8_tops
        END AS peak_tflops,
        details.cache_bytes,
        flops / nullif(peak_tflops, 0) / 1000 AS products_ns,
        CASE WHEN family NOT IN ('matrix', 'convolution', 'attention') THEN 0 ELSE products_ns END AS compute_ns,
        stored_bytes / nullif(peaks.memory_gb_per_s, 0) AS memory_ns
    FROM typed
    LEFT JOIN device_peaks AS peaks USING (trace_id, device)
    LEFT JOIN device_details AS details USING (trace_id, device)
),
floors AS (
    SELECT
        *,
        CASE WHEN compute_ns IS NOT NULL AND memory_ns IS NOT NULL THEN greatest(compute_ns, memory_ns) END AS floor_ns,
        CASE
            WHEN floor_ns IS NULL THEN NULL
            WHEN compute_ns > memory_ns THEN 'compute'
            ELSE 'memory'
        END AS roof
    FROM roofs
)
SELECT
    trace, rank, device, trace_id, slice_id, step, operator, family, input_shapes, input_types, precision,
    peak_tflops, flops, model_flops, flops_least, flops_most, model_flops_least, model_flops_most, size_bytes,
    op_sum_ns, dur_ns, products_ns AS compute_floor_ns, memory_ns AS memory_floor_ns, floor_ns, roof,
    dur_ns - floor_ns AS headroom_ns,
    CASE
        WHEN floor_ns IS NULL THEN NULL
        WHEN dur_ns >= floor_ns THEN 'plausible'
        WHEN roof = 'memory' AND stored_bytes < cache_bytes AND dur_ns >= compute_ns THEN 'cache'
        ELSE 'suspect'
    END AS status,
    CASE
        WHEN floor_ns IS NULL THEN NULL
        WHEN 2 * floor_ns >= dur_ns THEN roof
        WHEN host_dur_ns > dur_ns THEN 'launch'
        WHEN op_sum_ns < 5000 * op_count THEN 'latency'
        ELSE roof || ' below'
    END AS limited_by
FROM floors
