-- One row per trace and step that the profiler marked on the host: its length, and the parts of it in which its thread
-- was in the data loader and in framework operators. Only read where a run has no GPU work.
WITH steps AS (
    SELECT
        trace_id,
        thread_id,
        CAST(regexp_extract(name, '\d+') AS BIGINT) AS step,
        start_ns,
        dur_ns
    FROM host_slices
    WHERE category = 'annotation' AND regexp_matches(name, '^ProfilerStep#\d+$')
),
loads AS (
    SELECT trace_id, slice_id, thread_id, start_ns, dur_ns
    FROM host_slices
    WHERE category = 'annotation' AND starts_with(name, 'enumerate(DataLoader)')
),
outermost AS (
    SELECT trace_id, thread_id, start_ns, dur_ns, 'host.dataloader' AS bucket
    FROM loads
    UNION ALL
    SELECT ops.trace_id, ops.thread_id, ops.start_ns, ops.dur_ns, 'host.op'
    FROM host_slices AS ops
    ANTI JOIN loads
        ON loads.trace_id = ops.trace_id
        AND loads.thread_id = ops.thread_id
        AND loads.start_ns <= ops.start_ns
        AND ops.start_ns < loads.start_ns + loads.dur_ns
    WHERE ops.category = 'cpu_op' AND ops.op_id IS NULL
),
parts AS (
    SELECT
        steps.trace_id,
        steps.thread_id,
        steps.step,
        outermost.bucket,
        sum(
            least(outermost.start_ns + outermost.dur_ns, steps.start_ns + steps.dur_ns) - outermost.start_ns
        )::BIGINT AS dur_ns
    FROM steps
    JOIN outermost
        ON outermost.trace_id = steps.trace_id
        AND outermost.thread_id = steps.thread_id
        AND outermost.start_ns >= steps.start_ns
        AND outermost.start_ns < steps.start_ns + steps.dur_ns
    GROUP BY steps.trace_id, steps.thread_id, steps.step, outermost.bucket
)
SELECT
    traces.trace,
    traces.rank,
    steps.step,
    steps.dur_ns,
    coalesce(max(parts.dur_ns) FILTER (WHERE parts.bucket = 'host.dataloader'), 0) AS loader_ns,
    coalesce(max(parts.dur_ns) FILTER (WHERE parts.bucket = 'host.op'), 0) AS op_ns
FROM steps
JOIN traces USING (trace_id)
LEFT JOIN parts USING (trace_id, thread_id, step)
GROUP BY traces.trace_id, traces.trace, traces.rank, steps.step, steps.dur_ns, steps.start_ns
ORDER BY traces.trace_id, steps.start_ns
