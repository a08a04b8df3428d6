-- First and last instant of the trace's events, those at time zero left out; how many slices, flows and counters are at
-- zero; and how many values of slices and GPU work are lost. The first instant is where viewers start to count, so events of every
-- kind count, except naming events; the profiler's span of all counts only where it begins.
SELECT
    min(start_ns) FILTER (WHERE start_ns <> 0) AS first_ns,
    max(start_ns + dur_ns) AS last_ns,
    count(*) FILTER (WHERE start_ns = 0 AND NOT is_aside) AS zero_count,
    count(*) FILTER (WHERE device IS NULL AND is_gpu AND NOT is_device_lost) AS deviceless_count,
    coalesce(bool_or(launch ILIKE 'hip%'), false) AS has_hip,
    coalesce(bool_or(is_sycl), false) AS has_sycl,
    CAST(coalesce(sum(lost_values), 0) AS BIGINT) AS lost_value_count
FROM (
    SELECT start_ns, dur_ns, 0 AS device, false AS is_gpu, false AS is_aside, false AS is_sycl,
        CASE WHEN category = 'runtime' THEN name END AS launch, lost_values,
        false AS is_device_lost
    FROM read_parquet($host)
    UNION ALL
    SELECT start_ns, dur_ns, device, true, false, is_sycl, NULL, lost_values, is_device_lost
    FROM read_parquet($gpu)
    UNION ALL
    SELECT start_ns, if(category = 'span', 0, coalesce(dur_ns, 0)), 0, false, phase IN ('i', 'I', 'R') OR coalesce(class, '') = 'async', false, NULL, 0, false
    FROM read_parquet($other)
    WHERE phase <> 'M'
);
