-- Whether there are events of categories that PyTorch's profiler alone writes, as in a file whose head was cut off.
SELECT coalesce(bool_or(raw_category IN ('cpu_op', 'user_annotation', 'python_function', 'cuda_runtime')), FALSE)
FROM read_parquet($host);
