-- One row per device: the longest stretch of its analysis window without compute, held against the next longest.
--
-- A gap lies between two compute kernels, or between one and an end of the window; the ledger may divide it among several
-- reasons. Windows that compute all the time have no row.
--
-- columns: trace, rank, trace_id, device
--   start_ns       BIGINT   start of the gap
--   dur_ns         BIGINT   its length
--   cause          VARCHAR  bucket of its longest row
--   next_ns        BIGINT   longest other gap; 0: none
--   kernels_before BIGINT   kernels that start in the window before the gap
--   kernels_after  BIGINT   kernels that start in the window after it
--   host_ns        BIGINT   time that the launching thread spends outside of runtime calls, between its last launch before
--                           the gap and its first launch after it: removing it shortens the gap by at most this;
--                           NULL: not recorded
WITH longest AS (
    SELECT trace_id, device, arg_max(struct_pack(bucket, start_ns), (dur_ns, -row_id)) AS piece
    FROM attribution.ledger_rows
    WHERE kept AND bucket <> 'compute'
    GROUP BY trace_id, device
),
gaps AS (
    SELECT
        longest.trace_id, longest.device, longest.piece,
        coalesce(max(rows.start_ns + rows.dur_ns) FILTER (WHERE rows.start_ns < piece.start_ns), any_value(windows.start_ns)) AS start_ns,
        coalesce(min(rows.start_ns) FILTER (WHERE rows.start_ns > piece.start_ns), any_value(windows.end_ns)) AS end_ns
    FROM longest
    JOIN attribution.windows AS windows ON windows.trace_id = longest.trace_id AND windows.device = longest.device
    LEFT JOIN attribution.ledger_rows AS rows
           ON rows.trace_id = longest.trace_id
          AND rows.device = longest.device
          AND rows.kept
          AND rows.bucket = 'compute'
    GROUP BY longest.trace_id, longest.device, longest.piece
),
-- The ledger divides the whole window, so that its rows without compute lie between two with compute or an edge.
others AS (
    SELECT gaps.trace_id, gaps.device, max(stretches.dur_ns) AS next_ns
    FROM gaps
    JOIN (
        SELECT trace_id, device, min(start_ns) AS start_ns, sum(dur_ns)::BIGINT AS dur_ns
        FROM (
            SELECT *, count_if(bucket = 'compute') OVER (PARTITION BY trace_id, device ORDER BY start_ns, row_id) AS stretch
            FROM attribution.ledger_rows
            WHERE kept
        )
        WHERE bucket <> 'compute'
        GROUP BY trace_id, device, stretch
    ) AS stretches
      ON stretches.trace_id = gaps.trace_id
     AND stretches.device = gaps.device
     AND (stretches.start_ns < gaps.start_ns OR stretches.start_ns >= gaps.end_ns)
    GROUP BY gaps.trace_id, gaps.device
),
kernels AS (
    SELECT
        gaps.trace_id, gaps.device,
        count(*) FILTER (WHERE ops.start_ns < gaps.start_ns) AS before_count,
        count(*) FILTER (WHERE ops.start_ns >= gaps.end_ns) AS after_count,
        arg_min(ops.launch_id, (ops.start_ns, ops.op_id)) FILTER (WHERE ops.start_ns >= gaps.end_ns) AS launch_id
    FROM gaps
    JOIN attribution.windows AS windows ON windows.trace_id = gaps.trace_id AND windows.device = gaps.device
    JOIN gpu_ops AS ops
      ON ops.trace_id = gaps.trace_id
     AND ops.device = gaps.device
     AND ops.start_ns >= windows.start_ns
     AND ops.start_ns < windows.end_ns
    WHERE ops.kind = 'kernel'
    GROUP BY gaps.trace_id, gaps.device
),
-- Computed before it meets the calls: a join of all calls of a thread with each other grows with their square.
next_launches AS MATERIALIZED (
    SELECT kernels.trace_id, kernels.device, calls.thread_id, calls.start_ns
    FROM kernels
    JOIN launching_slices AS calls ON calls.trace_id = kernels.trace_id AND calls.slice_id = kernels.launch_id
),
launches AS MATERIALIZED (
    SELECT
        later.trace_id, later.device, later.thread_id,
        any_value(later.start_ns) AS until_ns,
        max(earlier.start_ns + earlier.dur_ns) AS since_ns
    FROM next_launches AS later
    JOIN launching_slices AS earlier
      ON earlier.trace_id = later.trace_id
     AND earlier.thread_id = later.thread_id
     AND earlier.start_ns < later.start_ns
    SEMI JOIN gpu_ops AS launched
      ON launched.trace_id = earlier.trace_id AND launched.launch_id = earlier.slice_id AND launched.kind = 'kernel'
    GROUP BY later.trace_id, later.device, later.thread_id
),
hosts AS (
    SELECT
        launches.trace_id, launches.device,
        any_value(until_ns - since_ns) - coalesce(sum(calls.dur_ns), 0)::BIGINT AS host_ns
    FROM launches
    LEFT JOIN host_slices AS calls
           ON calls.trace_id = launches.trace_id
          AND calls.thread_id = launches.thread_id
          AND calls.category = 'runtime'
          AND calls.start_ns >= launches.since_ns
          AND calls.start_ns < launches.until_ns
    GROUP BY launches.trace_id, launches.device
)
SELECT
    traces.trace, traces.rank, gaps.trace_id, gaps.device, gaps.start_ns,
    gaps.end_ns - gaps.start_ns AS dur_ns,
    piece.bucket AS cause,
    coalesce(others.next_ns, 0) AS next_ns,
    coalesce(kernels.before_count, 0) AS kernels_before,
    coalesce(kernels.after_count, 0) AS kernels_after,
    hosts.host_ns
FROM gaps
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN others USING (trace_id, device)
LEFT JOIN kernels USING (trace_id, device)
LEFT JOIN hosts USING (trace_id, device)
