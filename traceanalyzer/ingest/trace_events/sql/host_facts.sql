-- Whether there are events of categories that PyTorch's profiler alone writes, as in a file whose head was cut off; and
-- whether operators have the shapes of their inputs.
WITH recorded AS (
    SELECT raw_category, bool_or(category = 'cpu_op' AND starts_with(input_shapes, '[[')) AS has_shapes
    FROM read_parquet($host)
    GROUP BY raw_category
)
SELECT
    coalesce(bool_or(raw_category IN ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime', 'xpu_runtime', 'musa_runtime', 'mlu_runtime')), FALSE)
        AS has_pytorch_events,
    coalesce(bool_or(has_shapes), FALSE) AS has_shapes,
    coalesce(bool_or(regexp_full_match(raw_category, '(rocm_)?(hip|hsa|marker|rccl)_api|rocm_(hip|hsa|roctx)')), FALSE)
        OR coalesce(
            (SELECT bool_and(contains(args, '"corr_id"')) FROM (FROM read_parquet($gpu_events) LIMIT 10)), FALSE
        ) AS has_rocprof_events
FROM recorded;
