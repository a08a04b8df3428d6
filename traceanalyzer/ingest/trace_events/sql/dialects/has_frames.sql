-- Whether frames of Python are among the host's slices.
SELECT coalesce(bool_or(category = 'python'), FALSE) AS has_frames
FROM read_parquet($host)
