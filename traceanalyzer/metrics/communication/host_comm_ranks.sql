-- One row per device of a job whose ranks communicate on the host (MPI, gloo): how long it waits there, and for which rank.
--
-- A call ends when the last rank arrives, and that rank waits least: the others wait for it. No clocks are compared. Only
-- runs of two or more ranks that do the same have rows: windows of the same length (within a tenth), and about as many
-- calls (within a fifth, at least 10) on each rank.
--
-- empty without: canonical.traces HAVING count(DISTINCT rank) > 1
-- columns: trace, rank, device, trace_id
--   window_ns        BIGINT   length of the analysis window
--   call_count       BIGINT   calls that communicate on the host in it
--   kernel_count     BIGINT   kernels in it
--   wait_ns          BIGINT   time in which the device waits for these calls (time_ledger: host.comm_cpu)
--   own_ns           BIGINT   window_ns - wait_ns
--   compute_ns       BIGINT   time in it with compute
--   host_ns          BIGINT   time in it in which the device waits for anything else that the host does
--   slowest_rank     INTEGER  rank that waits least
--   least_wait_ns    BIGINT   its wait_ns: what the calls themselves take at most
--   uneven_ns        BIGINT   what the run loses because the ranks are not alike: own_ns of the slowest rank less that of the
--                             next-slowest, or less the mean, where that is more
WITH spent AS (
    SELECT
        windows.trace_id, windows.device,
        any_value(windows.window_ns) AS window_ns,
        CAST(coalesce(sum(rows.dur_ns) FILTER (WHERE rows.bucket = 'host.comm_cpu'), 0) AS BIGINT) AS wait_ns,
        CAST(coalesce(sum(rows.dur_ns) FILTER (WHERE rows.bucket = 'compute'), 0) AS BIGINT) AS compute_ns,
        CAST(coalesce(sum(rows.dur_ns) FILTER (
            WHERE starts_with(rows.bucket, 'host.') AND rows.bucket <> 'host.comm_cpu'
        ), 0) AS BIGINT) AS host_ns
    FROM attribution.windows AS windows
    JOIN attribution.ledger_rows AS rows USING (trace_id, device)
    WHERE rows.kept
    GROUP BY windows.trace_id, windows.device
),
calls AS (
    SELECT windows.trace_id, windows.device, count(*) AS call_count
    FROM attribution.windows AS windows
    JOIN canonical.host_slices AS slices
      ON slices.trace_id = windows.trace_id
     AND slices.start_ns >= windows.start_ns
     AND slices.start_ns < windows.end_ns
    WHERE exchanges_on_host(slices.name)
      -- A rank that waits asks more often.
      AND NOT regexp_matches(slices.name, '^P?MPI_(Test|Iprobe)')
    GROUP BY windows.trace_id, windows.device
),
kernels AS (
    SELECT windows.trace_id, windows.device, count(*) AS kernel_count
    FROM attribution.windows AS windows
    JOIN canonical.gpu_ops AS ops
      ON ops.trace_id = windows.trace_id
     AND ops.device = windows.device
     AND ops.start_ns >= windows.start_ns
     AND ops.start_ns < windows.end_ns
    WHERE ops.kind = 'kernel'
    GROUP BY windows.trace_id, windows.device
),
ranks AS (
    SELECT
        traces.trace, traces.rank,
        spent.*,
        spent.window_ns - spent.wait_ns AS own_ns,
        calls.call_count,
        coalesce(kernels.kernel_count, 0) AS kernel_count
    FROM spent
    JOIN canonical.traces AS traces USING (trace_id)
    JOIN calls USING (trace_id, device)
    LEFT JOIN kernels USING (trace_id, device)
),
slowest AS (
    SELECT
        arg_max(rank, (own_ns, -trace_id, -device)) AS slowest_rank,
        arg_max(wait_ns, (own_ns, -trace_id, -device)) AS least_wait_ns,
        CAST(
            greatest(max(own_ns) - list_sort(list(own_ns), 'DESC')[2], round(max(own_ns) - avg(own_ns))) AS BIGINT
        ) AS uneven_ns
    FROM ranks
    HAVING count(DISTINCT rank) >= 2
       AND count(DISTINCT rank) = (SELECT count(DISTINCT trace_id) FROM spent)
       AND min(window_ns) >= 0.9 * max(window_ns)
       AND min(call_count) >= greatest(10, 0.8 * max(call_count))
)
SELECT
    ranks.trace, ranks.rank, ranks.device, ranks.trace_id, ranks.window_ns, ranks.call_count,
    ranks.kernel_count, ranks.wait_ns, ranks.own_ns, ranks.compute_ns, ranks.host_ns, slowest.slowest_rank,
    slowest.least_wait_ns, slowest.uneven_ns
FROM ranks
CROSS JOIN slowest
ORDER BY ranks.trace_id, ranks.device
