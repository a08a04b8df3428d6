-- One row per trace, step and operator: its calls, its own time on the host and on devices, and the idle time it caused.
--
-- Own time on the host is the duration without the operators directly inside. Own time on devices is the sum of durations
-- of the GPU operations that the operator itself launched. Idle time is the time without compute that the ledger charges
-- to work inside the operator (ledger_rows.blame_op). On the host an operator belongs to the step whose interval on the
-- host contains its start, GPU operations and idle time to the device's step. Operators are the framework's (cpu_op). An
-- operator that a capture shows in a replayed graph (captured_owners) has a call in each replay, in the step of its first
-- GPU operation, and no time on the host.
--
-- columns: trace, rank
--   step         BIGINT   step; NULL: outside steps
--   kept         BOOLEAN  in the analysis window; of calls in a trace without steps: true
--   name         VARCHAR  operator
--   call_count   BIGINT   calls; of an operator that a compiler only traced (traced_calls): none
--   host_self_ns BIGINT   own time on the host
--   launch_count BIGINT   GPU operations that it launched itself
--   sum_ns       BIGINT   own time on devices
--   idle_ns      BIGINT   time without compute, on all devices, charged to work inside it
WITH spans AS (
    SELECT trace_id, step, min(host_start_ns) AS start_ns, max(host_end_ns) AS end_ns, bool_or(kept) AS kept
    FROM attribution.steps
    GROUP BY trace_id, step
),
operators AS MATERIALIZED (
    SELECT trace_id, slice_id, op_id AS parent_id, name, start_ns, dur_ns
    FROM host_slices
    WHERE category = 'cpu_op'
),
inner_time AS (
    SELECT trace_id, parent_id AS slice_id, sum(dur_ns) AS inner_ns
    FROM operators
    WHERE parent_id IS NOT NULL
    GROUP BY trace_id, parent_id
),
captured_work AS MATERIALIZED (
    SELECT
        ops.trace_id, ops.op_id, steps.step, steps.kept, calls.name, ops.dur_ns,
        row_number() OVER (PARTITION BY ops.trace_id, calls.call_id ORDER BY ops.start_ns, ops.op_id) AS nth
    FROM attribution.captured_owners AS owners
    JOIN attribution.captured_calls AS calls USING (trace_id, call_id)
    JOIN gpu_ops AS ops USING (trace_id, op_id)
    JOIN gpu_op_steps AS steps USING (trace_id, op_id)
),
parts AS (
    SELECT
        operators.trace_id,
        CASE WHEN operators.start_ns < spans.end_ns THEN spans.step END AS step,
        CASE
            WHEN operators.trace_id NOT IN (SELECT trace_id FROM spans) THEN true
            ELSE coalesce(operators.start_ns < spans.end_ns AND spans.kept, false)
        END AS kept,
        operators.name,
        if(traced.slice_id IS NULL, 1, 0) AS call_count,
        operators.dur_ns - coalesce(inner_ns, 0) AS host_self_ns,
        0 AS launch_count, 0 AS sum_ns, 0 AS idle_ns
    FROM operators
    ASOF LEFT JOIN spans ON spans.trace_id = operators.trace_id AND operators.start_ns >= spans.start_ns
    LEFT JOIN inner_time ON inner_time.trace_id = operators.trace_id AND inner_time.slice_id = operators.slice_id
    LEFT JOIN traced_calls AS traced ON traced.trace_id = operators.trace_id AND traced.slice_id = operators.slice_id
    UNION ALL
    SELECT ops.trace_id, gpu_op_steps.step, gpu_op_steps.kept, operators.name, 0, 0, 1, ops.dur_ns, 0
    FROM gpu_ops AS ops
    JOIN gpu_op_steps USING (trace_id, op_id)
    JOIN operators ON operators.trace_id = ops.trace_id AND operators.slice_id = ops.cpu_op_id
    ANTI JOIN captured_work AS captured ON captured.trace_id = ops.trace_id AND captured.op_id = ops.op_id
    UNION ALL
    SELECT trace_id, step, kept, name, if(nth = 1, 1, 0), 0, 1, dur_ns, 0
    FROM captured_work
    UNION ALL
    SELECT trace_id, step, kept, blame_op, 0, 0, 0, 0, dur_ns
    FROM attribution.ledger_rows
    WHERE blame_op IS NOT NULL AND bucket <> 'compute'
)
SELECT
    trace, rank, step, kept, name,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(host_self_ns) AS BIGINT) AS host_self_ns,
    CAST(sum(launch_count) AS BIGINT) AS launch_count,
    CAST(sum(sum_ns) AS BIGINT) AS sum_ns,
    CAST(sum(idle_ns) AS BIGINT) AS idle_ns
FROM parts
JOIN canonical.traces USING (trace_id)
GROUP BY parts.trace_id, trace, rank, step, kept, name
ORDER BY parts.trace_id, step, kept, sum_ns DESC, name
