-- One row per distinct kernel name of the run: what kind of work it does, in which precision, on tensor cores or not.
--
-- kernel_class_patterns alone decides; 'other' and 'unknown' mean that no pattern matches the name.
--
-- columns:
--   name         VARCHAR  kernel, as written
--   class        VARCHAR  gemm, gemv, conv, attention, norm, softmax, elementwise, reduce, copy, optimizer, comm or
--                         other
--   precision    VARCHAR  precision of a matmul's inputs (gemm, gemv, conv, attention): fp64, fp32, tf32, fp16, bf16,
--                         fp8 or unknown; NULL: not a matmul
--   tensor_core  VARCHAR  yes, no or unknown; NULL: not a matmul
WITH names AS (
    SELECT DISTINCT name
    FROM gpu_ops
    WHERE kind = 'kernel'
      AND name IS NOT NULL
),
matches AS (
    SELECT
        names.name,
        patterns.aspect,
        arg_min(patterns.value, patterns.position) AS value
    FROM names
    JOIN kernel_class_patterns AS patterns ON regexp_matches(names.name, patterns.pattern)
    GROUP BY names.name, patterns.aspect
),
aspects AS (
    SELECT
        names.name,
        coalesce(any_value(value) FILTER (WHERE aspect = 'class'), 'other') AS class,
        coalesce(any_value(value) FILTER (WHERE aspect = 'precision'), 'unknown') AS precision,
        coalesce(any_value(value) FILTER (WHERE aspect = 'tensor_core'), 'unknown') AS tensor_core
    FROM names
    LEFT JOIN matches USING (name)
    GROUP BY names.name
)
SELECT
    name,
    class,
    CASE WHEN class IN ('gemm', 'gemv', 'conv', 'attention') THEN precision END AS precision,
    CASE WHEN class IN ('gemm', 'gemv', 'conv', 'attention') THEN tensor_core END AS tensor_core
FROM aspects
