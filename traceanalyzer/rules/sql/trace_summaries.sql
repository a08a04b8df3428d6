-- One row per trace of the run, in its order.
SELECT
    traces.trace,
    traces.format,
    traces.rank,
    traces.world_size,
    traces.event_count,
    (SELECT count(*) FROM gpu_ops WHERE gpu_ops.trace_id = traces.trace_id) AS gpu_op_count,
    traces.truncated,
    traces.recorder,
    traces.framework,
    recordings.rank_id,
    recordings.recording,
    recordings.recording_count,
    recordings.is_overlapping
FROM traces
JOIN recordings USING (trace_id)
ORDER BY traces.trace_id
