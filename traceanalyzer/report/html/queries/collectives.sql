-- One row per kind of collective, group and size of those that start in the analysis window of their device (without one:
-- of all), all ranks together, longest first: kernels, sum and longest duration,
-- the wait of all ranks for the last one (NULL: ranks are missing), and the bytes of all divided by their durations,
-- corrected as the metric collectives does: with the wait for the last rank in it, the bus bandwidth is a lower bound.
SELECT
    collective_kind,
    coalesce(group_desc, group_name) AS group_name,
    any_value(group_size) AS group_size,
    size_bytes,
    count(*) AS kernel_count,
    CAST(sum(dur_ns) AS BIGINT) AS sum_ns,
    max(dur_ns) AS max_ns,
    CAST(sum(members.wait_ns) AS BIGINT) AS wait_ns,
    CASE WHEN sum(dur_ns) > 0 THEN round(sum(CAST(bus_bytes_per_s * dur_ns / 1e9 AS BIGINT)) * 1e9 / sum(dur_ns)) END AS bus_bytes_per_s
FROM collectives
LEFT JOIN attribution.collective_members AS members USING (trace_id, op_id)
LEFT JOIN attribution.windows AS windows
       ON windows.trace_id = collectives.trace_id AND windows.device = collectives.device
WHERE windows.start_ns IS NULL OR collectives.start_ns >= windows.start_ns AND collectives.start_ns < windows.end_ns
GROUP BY collective_kind, coalesce(group_desc, group_name), size_bytes
ORDER BY sum_ns DESC, collective_kind, group_name, size_bytes
