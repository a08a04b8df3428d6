-- One row per direction and kinds of memory, all devices together, longest first: copies, bytes, sum and longest of
-- durations, and bytes by the summed time of the
-- copies whose size is known, which is their bytes by their bandwidth.
SELECT
    copy_kind,
    src_kind,
    dst_kind,
    CAST(sum(copy_count) AS BIGINT) AS copy_count,
    TRY_CAST(sum(size_bytes) AS BIGINT) AS size_bytes,
    CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
    max(max_ns) AS max_ns,
    sum(size_bytes) * 1e9 / nullif(sum(size_bytes * 1e9 / nullif(bandwidth_bytes_per_s, 0)), 0) AS bytes_per_s
FROM copies
GROUP BY copy_kind, src_kind, dst_kind
ORDER BY sum_ns DESC, copy_kind, src_kind, dst_kind
