-- One row per trace, device and stream: how far the host is ahead, as the number of launches that wait to start.
--
-- queue_depth_changes defines what waits. Shares and means are weighted by time, from the first launch on the stream to
-- the last change of its queue. An empty queue means that the device waits for the host (launch-bound); a full queue
-- means that the host waits for the device. CUDA holds 1,024 launches, and the call that finds the queue full blocks,
-- so the queue counts as full from 1,024 on, including the blocked call.
--
-- columns: trace, rank, device
--   stream       BIGINT   stream
--   window_ns    BIGINT   from the first launch to the last change of the queue
--   mean_depth   DOUBLE   mean number of launches in the queue over time
--   median_depth BIGINT   launches in the queue for at least half of the time
--   max_depth    BIGINT   maximum number of launches in the queue
--   empty_ns     BIGINT   time in which no launch waits
--   empty_share  DOUBLE   empty_ns / window_ns
--   full_ns      BIGINT   time in which 1,024 launches or more wait
--   full_share   DOUBLE   full_ns / window_ns
WITH depths AS (
    SELECT trace, rank, device, stream, trace_id, depth, sum(dur_ns) AS dur_ns
    FROM queue_depth_changes
    WHERE dur_ns IS NOT NULL
    GROUP BY ALL
),
-- Depths from the largest down: the median is the first one at which the time reaches half.
reached AS (
    SELECT
        *,
        sum(dur_ns) OVER (PARTITION BY trace_id, device, stream ORDER BY depth DESC) AS at_least_ns,
        sum(dur_ns) OVER (PARTITION BY trace_id, device, stream) AS window_ns
    FROM depths
)
SELECT
    trace, rank, device, stream,
    CAST(any_value(window_ns) AS BIGINT) AS window_ns,
    sum(depth * dur_ns) / any_value(window_ns) AS mean_depth,
    max(depth) FILTER (WHERE 2 * at_least_ns >= window_ns) AS median_depth,
    max(depth) AS max_depth,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE depth = 0), 0) AS BIGINT) AS empty_ns,
    coalesce(sum(dur_ns) FILTER (WHERE depth = 0), 0) / any_value(window_ns) AS empty_share,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE depth >= 1024), 0) AS BIGINT) AS full_ns,
    coalesce(sum(dur_ns) FILTER (WHERE depth >= 1024), 0) / any_value(window_ns) AS full_share
FROM reached
GROUP BY trace, rank, device, stream, trace_id
ORDER BY trace_id, device, stream
