-- One row per trace of the run, in its order.
WITH work AS (
    SELECT
        trace_id,
        count(*) AS gpu_op_count,
        count(*) FILTER (computes) AS kernel_count,
        coalesce(sum(dur_ns) FILTER (computes), 0)::BIGINT AS kernel_sum_ns
    FROM (SELECT trace_id, dur_ns, kind NOT IN ('memcpy', 'memset') AND NOT is_comm AS computes FROM gpu_ops)
    GROUP BY trace_id
),
-- What a recording without slices and GPU work may hold: not all of it counts as events where it is read.
others AS (
    SELECT trace_id, count(*) AS event_count
    FROM (
        SELECT trace_id FROM instants
        UNION ALL
        SELECT trace_id FROM async_slices
        UNION ALL
        SELECT trace_id FROM counters
        UNION ALL
        SELECT trace_id FROM cpu_samples
        UNION ALL
        SELECT trace_id FROM memory_events
    )
    WHERE trace_id IN (SELECT trace_id FROM traces WHERE first_ns IS NULL)
    GROUP BY trace_id
)
SELECT
    traces.trace, traces.format, traces.rank, traces.world_size,
    CASE WHEN traces.first_ns IS NULL THEN coalesce(others.event_count, 0) ELSE traces.event_count END AS event_count,
    coalesce(work.gpu_op_count, 0) AS gpu_op_count,
    traces.truncated, traces.recorder, traces.framework, recordings.rank_id, recordings.recording,
    recordings.recording_count, recordings.is_overlapping,
    coalesce(work.kernel_count, 0) AS kernel_count,
    coalesce(work.kernel_sum_ns, 0) AS kernel_sum_ns
FROM traces
JOIN recordings USING (trace_id)
LEFT JOIN work USING (trace_id)
LEFT JOIN others USING (trace_id)
ORDER BY traces.trace_id
