-- One row per trace: what it is, what was recorded in it, and how much of its GPU work is linked to the host.
-- A TPU runs whole programs: the call that started a run launched all of its operations.
WITH launched_runs AS (
    SELECT DISTINCT ends.trace_id, ends.event_id AS run_id
    FROM canonical.flows AS ends
    JOIN canonical.flows AS starts USING (trace_id, flow_id)
    WHERE ends.phase = 'f' AND starts.phase = 's' AND ends.category IS NOT DISTINCT FROM starts.category
),
linked AS (
    SELECT
        trace_id,
        count(*) AS gpu_op_count,
        min(start_ns) AS gpu_first_ns,
        max(start_ns + dur_ns) AS gpu_last_ns,
        count(coalesce(launch_id, launched_runs.run_id)) / count(*) AS launch_share,
        count(cpu_op_id) / count(*) AS cpu_op_share,
        count(annotation_id) / count(*) AS annotation_share,
        count(python_id) / count(*) AS python_share
    FROM canonical.gpu_ops
    LEFT JOIN launched_runs USING (trace_id, run_id)
    GROUP BY trace_id
),
windows AS (
    SELECT trace_id, max(step_source) AS step_source, max(step_count) AS kept_step_count
    FROM attribution.windows
    GROUP BY trace_id
),
operators AS (
    SELECT DISTINCT trace_id
    FROM canonical.host_slices
    WHERE category = 'cpu_op'
),
steps AS (
    SELECT trace_id, count(DISTINCT step) AS step_count
    FROM attribution.steps
    GROUP BY trace_id
),
-- Without a device nothing is attributed, but the host has its steps all the same.
host_steps AS (
    SELECT
        trace_id,
        count(DISTINCT name) AS step_count,
        if(bool_or(raw_category IS NOT DISTINCT FROM 'step_num'), 'step_num', 'ProfilerStep') AS source
    FROM canonical.host_slices
    WHERE marks_step(category, raw_category, name)
    GROUP BY trace_id
)
SELECT
    traces.trace, traces.format, traces.recorder, traces.framework, traces.producer, traces.vendor,
    traces.host, traces.rank, traces.rank_source, traces.world_size, recordings.rank_id,
    recordings.recording_count, traces.backend, traces.size_bytes, traces.event_count,
    traces.last_ns - traces.first_ns AS span_ns,
    traces.truncated,
    operators.trace_id IS NOT NULL AS has_operators,
    traces.has_shapes, traces.has_stacks, traces.has_memory, traces.has_sync_events,
    coalesce(linked.gpu_op_count, 0) AS gpu_op_count,
    linked.gpu_last_ns - linked.gpu_first_ns AS gpu_span_ns,
    linked.launch_share, linked.cpu_op_share, linked.annotation_share, linked.python_share,
    coalesce(windows.step_source, host_steps.source || ', host only') AS step_source,
    coalesce(steps.step_count, host_steps.step_count, 0) AS step_count,
    coalesce(windows.kept_step_count, 0) AS kept_step_count
FROM canonical.traces
JOIN recordings USING (trace_id)
LEFT JOIN linked USING (trace_id)
LEFT JOIN operators USING (trace_id)
LEFT JOIN windows USING (trace_id)
LEFT JOIN steps USING (trace_id)
LEFT JOIN host_steps USING (trace_id)
ORDER BY traces.trace_id
