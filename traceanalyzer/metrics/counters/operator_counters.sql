-- One row per trace and operator whose kernels were profiled with counters: the arithmetic that the device executed.
--
-- Operations are additions and multiplications, a fused one counts as two: fadd + fmul + 2 · ffma, of threads that were
-- not masked out. The counters count thread instructions: with packed halves the operations of 16 bits may be twice as
-- many. Matrix instructions of tensor cores are not among them. Where a counter was not recorded, the number is NULL.
-- kernel_counters has each counter.
--
-- columns: trace, rank, trace_id
--   operator      VARCHAR  innermost operator around the launch calls; NULL: none, or the calls are not known
--   kernel_count  BIGINT   profiled kernels
--   fp64_flops    DOUBLE   operations with 64 bits
--   fp32_flops    DOUBLE   operations with 32 bits
--   fp16_flops    DOUBLE   operations with 16 bits, a packed pair counted once
WITH kernels AS (
    SELECT
        trace, rank, trace_id, operator, event_id,
        sum(value) FILTER (WHERE counter LIKE '%op_dadd_pred_on.sum') AS dadd,
        sum(value) FILTER (WHERE counter LIKE '%op_dmul_pred_on.sum') AS dmul,
        sum(value) FILTER (WHERE counter LIKE '%op_dfma_pred_on.sum') AS dfma,
        sum(value) FILTER (WHERE counter LIKE '%op_fadd_pred_on.sum') AS fadd,
        sum(value) FILTER (WHERE counter LIKE '%op_fmul_pred_on.sum') AS fmul,
        sum(value) FILTER (WHERE counter LIKE '%op_ffma_pred_on.sum') AS ffma,
        sum(value) FILTER (WHERE counter LIKE '%op_hadd_pred_on.sum') AS hadd,
        sum(value) FILTER (WHERE counter LIKE '%op_hmul_pred_on.sum') AS hmul,
        sum(value) FILTER (WHERE counter LIKE '%op_hfma_pred_on.sum') AS hfma
    FROM kernel_counters
    GROUP BY trace, rank, trace_id, operator, event_id
)
SELECT
    trace, rank, trace_id, operator,
    count(*) AS kernel_count,
    CASE WHEN count(*) = count(dadd + dmul + dfma) THEN sum(dadd + dmul + 2 * dfma) END AS fp64_flops,
    CASE WHEN count(*) = count(fadd + fmul + ffma) THEN sum(fadd + fmul + 2 * ffma) END AS fp32_flops,
    CASE WHEN count(*) = count(hadd + hmul + hfma) THEN sum(hadd + hmul + 2 * hfma) END AS fp16_flops
FROM kernels
GROUP BY trace, rank, trace_id, operator
ORDER BY trace_id, fp32_flops DESC NULLS LAST, operator
