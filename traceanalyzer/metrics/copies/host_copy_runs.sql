-- One row per series of copies to the host that no kernel interrupts, by device: results or parameters that are saved.
--
-- Only copies of 4 KiB and more count, as smaller ones are values that somebody reads, and only series of two and more.
--
-- empty without: gpu_ops WHERE copy_kind = 'DtoH' AND size_bytes >= 4096
-- columns: trace, rank, trace_id, device
--   start_ns    BIGINT  start of the first copy
--   end_ns      BIGINT  end of the last copy
--   copy_count  BIGINT  copies in the series
--   size_bytes  BIGINT  bytes of all of them
SELECT
    traces.trace, traces.rank, parts.trace_id, parts.device,
    min(parts.start_ns) AS start_ns,
    max(parts.start_ns + parts.dur_ns) AS end_ns,
    count(*) AS copy_count,
    sum(parts.size_bytes)::BIGINT AS size_bytes
FROM (
    SELECT
        *,
        count_if(kind = 'kernel') OVER (
            PARTITION BY trace_id, device
            ORDER BY start_ns, op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS part
    FROM gpu_ops
    -- Traces without such copies have nothing to number.
    WHERE (trace_id, device) IN (SELECT (trace_id, device) FROM gpu_ops WHERE copy_kind = 'DtoH' AND size_bytes >= 4096)
) AS parts
JOIN canonical.traces AS traces USING (trace_id)
WHERE parts.copy_kind = 'DtoH' AND parts.size_bytes >= 4096
GROUP BY traces.trace, traces.rank, parts.trace_id, parts.device, parts.part
HAVING count(*) >= 2
ORDER BY parts.trace_id, parts.device, min(parts.start_ns)
