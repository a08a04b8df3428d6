-- One row per distinct kernel name of the run: what kind of work it does, in which precision, on tensor cores or not.
--
-- kernel_class_patterns alone decides: kernel_class_of and the other macros here are made from its rows. 'other' and
-- 'unknown' mean that no pattern matches the name.
--
-- columns:
--   name         VARCHAR  kernel, as written
--   class        VARCHAR  gemm, gemv, conv, attention, norm, softmax, elementwise, reduce (or scan), copy, optimizer,
--                         comm, gather (or scatter), sort (or top-k), fft or other
--   precision    VARCHAR  precision of a matmul's inputs (gemm, gemv, conv, attention): fp64, fp32, tf32, fp16, bf16,
--                         fp8, fp4 or unknown; NULL: not a matmul
--   tensor_core  VARCHAR  yes, no or unknown; NULL: not a matmul
WITH names AS (
    SELECT DISTINCT name
    FROM gpu_ops
    WHERE kind = 'kernel' AND name IS NOT NULL
),
classes AS (
    SELECT name, coalesce(kernel_class_of(name), 'other') AS class
    FROM names
)
SELECT
    name, class,
    CASE
        WHEN class IN ('gemm', 'gemv', 'conv', 'attention') THEN coalesce(kernel_precision_of(name), 'unknown')
    END AS precision,
    CASE
        WHEN class IN ('gemm', 'gemv', 'conv', 'attention') THEN coalesce(kernel_tensor_core_of(name), 'unknown')
    END AS tensor_core
FROM classes
