-- One row per device, collective, group, type and size: how much of its links' rate it reaches.
--
-- Where every rank of a collective is in the run, its time is the shortest kernel of all ranks: the transfer, without
-- the wait for the last rank. Else it is the duration of this rank's kernel, and the bandwidth a lower bound.
-- Bandwidths are those of NCCL's benchmarks (collectives), in 10^9 bytes per second. The links' peak is that of one
-- direction (device details), and applies only where all ranks are known to be on one host: what connects hosts is not
-- in a trace. The protocol in a kernel's name lowers the roof: LL carries 4 of 8 bytes, LL128 120 of 128. Latency
-- dominates messages below 1 MiB, so they have no share.
--
-- columns: trace, rank, device
--   collective_kind     VARCHAR  as in collectives
--   group_name          VARCHAR  process group; NULL: not recorded
--   group_size          INTEGER  ranks of the group
--   comm_dtype          VARCHAR  element type
--   size_bytes          BIGINT   bytes, as in collectives
--   algorithm           VARCHAR  RING, TREE, NVLS or COLLNET, where the kernel's name shows it
--   protocol            VARCHAR  LL, LL128 or SIMPLE, where the kernel's name shows it
--   call_count          BIGINT   collectives
--   matched_count       BIGINT   collectives of which every rank is in the run
--   dur_sum_ns          BIGINT   sum of the kernels' durations
--   min_ns              BIGINT   shortest time
--   median_ns           DOUBLE   median of the times
--   best_bus_gb_per_s   DOUBLE   bus bandwidth in the shortest time; NULL: unknown size or kind
--   median_alg_gb_per_s DOUBLE   algorithm bandwidth in the median time
--   median_bus_gb_per_s DOUBLE   bus bandwidth in the median time
--   is_lower_bound      BOOLEAN  for at least one collective not all ranks are in the run
--   link_gb_per_s       DOUBLE   links of the device, one direction, times what the protocol carries; NULL: unknown
--   link_share          DOUBLE   best_bus_gb_per_s / link_gb_per_s; NULL: unknown, or less than 1 MiB
WITH times AS (
    SELECT
        kernels.*,
        nullif(upper(regexp_extract(kernels.name, '(?i)_(RING|TREE|NVLS|COLLNET)', 1)), '') AS algorithm,
        nullif(upper(regexp_extract(kernels.name, '(?i)_(LL128|LL|SIMPLE)', 1)), '') AS protocol,
        members.transfer_ns IS NOT NULL AS is_matched,
        coalesce(members.transfer_ns, kernels.dur_ns) AS time_ns,
        bus_bytes_per_s / nullif(algorithm_bytes_per_s, 0) AS bus_factor
    FROM collectives AS kernels
    LEFT JOIN (
        SELECT DISTINCT trace_id, op_id, transfer_ns FROM attribution.collective_members
    ) AS members USING (trace_id, op_id)
),
sums AS (
    SELECT
        trace, rank, device, trace_id, collective_kind, group_name, group_size, comm_dtype, size_bytes,
        algorithm, protocol,
        any_value(bus_factor) AS bus_factor,
        count(*) AS call_count,
        count(*) FILTER (WHERE is_matched) AS matched_count,
        CAST(sum(dur_ns) AS BIGINT) AS dur_sum_ns,
        min(time_ns) AS min_ns,
        median(time_ns) AS median_ns
    FROM times
    GROUP BY trace, rank, device, trace_id, collective_kind, group_name, group_size, comm_dtype, size_bytes, algorithm, protocol
),
one_host AS (
    SELECT min(host) = max(host) AND count(host) = count(*) AS is_one_host
    FROM canonical.traces
),
roofs AS (
    SELECT
        sums.*,
        bus_factor * size_bytes / nullif(min_ns, 0) AS best_bus,
        CASE
            WHEN is_one_host AND group_size = (SELECT count(DISTINCT rank) FROM canonical.traces)
            THEN details.link_gb_per_s * CASE protocol WHEN 'LL' THEN 0.5 WHEN 'LL128' THEN 0.9375 ELSE 1 END
        END AS link_gb_per_s
    FROM sums
    CROSS JOIN one_host
    LEFT JOIN device_details AS details USING (trace_id, device)
)
SELECT
    trace, rank, device, collective_kind, group_name, group_size, comm_dtype, size_bytes, algorithm, protocol,
    call_count, matched_count, dur_sum_ns, min_ns, median_ns, best_bus AS best_bus_gb_per_s,
    size_bytes / nullif(median_ns, 0) AS median_alg_gb_per_s,
    bus_factor * size_bytes / nullif(median_ns, 0) AS median_bus_gb_per_s,
    matched_count < call_count AS is_lower_bound,
    link_gb_per_s,
    CASE WHEN size_bytes >= 1048576 THEN best_bus / nullif(link_gb_per_s, 0) END AS link_share
FROM roofs
ORDER BY trace_id, device, dur_sum_ns DESC, collective_kind, group_name, size_bytes, comm_dtype, algorithm, protocol
