-- One row per direction and kinds of memory of the copies that start in the analysis window of their device, all devices
-- together, longest first: copies, bytes, sum and longest of durations, and bytes by the summed time of the copies whose
-- size is known. Of a device without a window all copies count.
SELECT
    ops.copy_kind, ops.src_kind, ops.dst_kind,
    count(*) AS copy_count,
    TRY_CAST(sum(ops.size_bytes) AS BIGINT) AS size_bytes,
    CAST(sum(ops.dur_ns) AS BIGINT) AS sum_ns,
    max(ops.dur_ns) AS max_ns,
    sum(ops.size_bytes) * 1e9 / nullif(sum(ops.dur_ns) FILTER (WHERE ops.size_bytes IS NOT NULL), 0) AS bytes_per_s
FROM canonical.gpu_ops AS ops
LEFT JOIN attribution.windows AS windows USING (trace_id, device)
WHERE ops.kind = 'memcpy' AND (windows.start_ns IS NULL OR ops.start_ns >= windows.start_ns AND ops.start_ns < windows.end_ns)
GROUP BY ops.copy_kind, ops.src_kind, ops.dst_kind
ORDER BY sum_ns DESC, copy_kind, src_kind, dst_kind
