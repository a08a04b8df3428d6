-- One row per device that sends and receives at once in its analysis window: how these exchanges lie among attention.
--
-- Ranks that share a sequence pass keys and values around in a ring. Each hop has a kernel of attention, up to three in
-- its backward pass, and all hops are waited for alike. A stage of a pipeline has layers between its messages, and waits
-- for the first and the last of them longest.
--
-- empty without: gpu_ops WHERE is_comm AND regexp_matches(collective, '(?i)isend_?irecv|sendrecv|coalesced')
-- columns: trace, rank, device, trace_id
--   hop_count        BIGINT   exchanges in the window
--   attention_count  BIGINT   kernels of attention in the window
--   is_ring          BOOLEAN  they are hops of a ring
WITH hops AS (
    SELECT ops.trace_id, ops.device, count(*) AS hop_count
    FROM attribution.windows AS windows
    JOIN gpu_ops AS ops
      ON ops.trace_id = windows.trace_id
     AND ops.device = windows.device
     AND ops.start_ns >= windows.start_ns
     AND ops.start_ns < windows.end_ns
    WHERE ops.is_comm AND regexp_matches(ops.collective, '(?i)isend_?irecv|sendrecv|coalesced')
    GROUP BY ops.trace_id, ops.device
),
attention AS (
    SELECT trace_id, device, count(*) AS attention_count
    FROM kernel_class
    WHERE class = 'attention' AND wall_ns > 0 AND (trace_id, device) IN (SELECT (trace_id, device) FROM hops)
    GROUP BY trace_id, device
),
waits AS (
    SELECT trace_id, device, max(dur_ns) AS longest_ns, median(dur_ns) AS median_ns
    FROM ledger_rows
    WHERE kept AND bucket = 'dev.comm_p2p'
    GROUP BY trace_id, device
)
SELECT
    traces.trace, traces.rank, hops.device, hops.trace_id, hops.hop_count,
    coalesce(attention.attention_count, 0) AS attention_count,
    coalesce(
        attention.attention_count BETWEEN 0.5 * hops.hop_count AND 3 * hops.hop_count
        AND waits.longest_ns <= 5 * waits.median_ns,
        FALSE
    ) AS is_ring
FROM hops
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN attention USING (trace_id, device)
LEFT JOIN waits USING (trace_id, device)
ORDER BY hops.trace_id, hops.device
