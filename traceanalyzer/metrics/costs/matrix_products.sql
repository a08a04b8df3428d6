-- One row per kernel of a matmul (GEMM) whose operator's input shapes were recorded: its sizes, and how fast it ran.
--
-- A batch of products of m x k with k x n matrices takes 2 * batch * m * n * k operations. Tensor cores and wide loads
-- need rows in memory in multiples of 16 bytes: those of the result (n) and of both operands. The strides say how long
-- these are (of a transposed operand, such as the gradient in that of a weight, its columns); without them they are k and
-- n. Where an operator launches several of these kernels, such as one that adds up what the others made of parts of k,
-- each has done its share of the product by duration.
--
-- empty without: kernel_class WHERE class = 'gemm' AND operator IS NOT NULL
-- columns: trace, rank, device, trace_id
--   op_id        BIGINT   gpu_ops.op_id
--   operator     VARCHAR  aten::mm, aten::addmm, aten::bmm or aten::baddbmm
--   precision    VARCHAR  as in kernel_class
--   batch        BIGINT   number of products
--   m            BIGINT   rows of the result
--   n            BIGINT   columns of the result
--   k            BIGINT   length of each dot product
--   flops        DOUBLE   operations, or its share of them
--   tflops       DOUBLE   rate in TFLOP/s: operations per ns / 1000
--   size_bytes   DOUBLE   both operands and the result, each once: the least that memory has to move, or its share
--   is_aligned   BOOLEAN  the rows of the result and of both operands each take a multiple of 16 bytes
WITH products AS (
    SELECT
        kernels.*,
        kernels.dur_ns / nullif(sum(kernels.dur_ns) OVER (PARTITION BY kernels.trace_id, kernels.operator_id), 0) AS part,
        operators.input_shapes AS dims,
        operators.input_strides AS strides,
        CASE WHEN kernels.operator IN ('aten::mm', 'aten::bmm') THEN 0 ELSE 1 END AS first_operand
    FROM kernel_class AS kernels
    JOIN operator_arguments AS operators
      ON operators.trace_id = kernels.trace_id AND operators.slice_id = kernels.operator_id
    WHERE kernels.class = 'gemm'
      AND kernels.operator IN ('aten::mm', 'aten::addmm', 'aten::bmm', 'aten::baddbmm')
),
operands AS (
    SELECT
        *,
        json_extract(dims, printf('$[%d]', first_operand))::BIGINT[] AS lhs,
        json_extract(dims, printf('$[%d]', first_operand + 1))::BIGINT[] AS rhs,
        [
            CASE WHEN least(steps[-1], steps[-2]) = 1 THEN greatest(steps[-1], steps[-2]) END
            FOR steps IN TRY_CAST(json_extract(strides, '$[*]')[first_operand + 1:first_operand + 2] AS BIGINT[][])
        ] AS row_lengths
    FROM products
),
sizes AS (
    SELECT
        *,
        CASE WHEN len(lhs) = 3 THEN lhs[1] ELSE 1 END AS batch,
        lhs[-2] AS m,
        rhs[-1] AS n,
        lhs[-1] AS k,
        part * 2 * batch * m * n * k AS flops,
        CASE precision WHEN 'fp8' THEN 16 WHEN 'bf16' THEN 8 WHEN 'fp16' THEN 8 WHEN 'fp64' THEN 2 ELSE 4 END AS unit,
        part * 16 / unit * batch * (m * k + k * n + m * n) AS size_bytes
    FROM operands
    WHERE len(lhs) IN (2, 3) AND len(rhs) = len(lhs) AND lhs[-1] = rhs[-2]
)
SELECT
    trace, rank, device, trace_id, op_id, operator, precision, batch, m, n, k, flops,
    flops / nullif(dur_ns, 0) / 1000 AS tflops,
    size_bytes,
    n % unit = 0 AND coalesce(row_lengths[1], k) % unit = 0 AND coalesce(row_lengths[2], k) % unit = 0 AS is_aligned
FROM sizes
