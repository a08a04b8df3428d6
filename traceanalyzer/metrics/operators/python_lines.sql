-- One row per trace and line of Python: what the device and the host did for it.
--
-- A line is a frame of the interpreter with file, line and function. Frames of built-in functions have neither, those named
-- nn.Module are the profiler's marks, and some of PyTorch only pass a call on (__torch_function__, _call_impl, an operator's
-- __call__): what happens in them belongs to the line around them, and so do operators and calls of the runtime. A GPU
-- operation belongs to the innermost line around its launch, in a replayed graph around the launch that was captured; idle time to the innermost line around the slice that is to
-- blame for it (time_ledger). Lines of the profiler itself are left out.
--
-- columns: trace, rank, trace_id
--   name          VARCHAR  frame, as written: file(line): function
--   call_count    BIGINT   calls
--   host_self_ns  BIGINT   their durations without the lines inside
--   device_ns     BIGINT   sum of the durations of the GPU operations launched in it
--   idle_ns       BIGINT   time that devices waited for it
WITH RECURSIVE
stacks AS MATERIALIZED (
    SELECT
        trace_id, stack_id, parent_stack_id, name, call_count, host_self_ns, device_self_ns, idle_self_ns,
        category = 'python' AND is_python_line(name) AS is_line
    FROM call_tree
),
-- Each stack with the innermost line around it, from the roots down: a stack is met once, however deep it lies.
lines AS MATERIALIZED (
    SELECT trace_id, stack_id, if(is_line, name, NULL) AS name
    FROM stacks
    WHERE parent_stack_id IS NULL
    UNION ALL
    SELECT
        stacks.trace_id, stacks.stack_id, if(stacks.is_line, stacks.name, lines.name) AS name
    FROM lines
    JOIN stacks ON stacks.trace_id = lines.trace_id AND stacks.parent_stack_id = lines.stack_id
),
-- What is a captured line's is not that of the line that launches the graph.
captured AS (
    SELECT owners.trace_id, owners.python AS name, launches.stack_id, sum(ops.dur_ns) AS device_ns
    FROM attribution.captured_owners AS owners
    JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
    JOIN canonical.host_slices AS launches ON launches.trace_id = ops.trace_id AND launches.slice_id = ops.launch_id
    WHERE owners.python IS NOT NULL
    GROUP BY ALL
),
parts AS (
    SELECT
        lines.trace_id, lines.name,
        if(stacks.is_line, stacks.call_count, 0) AS call_count,
        stacks.host_self_ns, stacks.device_self_ns AS device_ns, stacks.idle_self_ns AS idle_ns
    FROM lines
    JOIN stacks USING (trace_id, stack_id)
    WHERE lines.name IS NOT NULL
    UNION ALL
    SELECT captured.trace_id, lines.name, 0, 0, -captured.device_ns, 0
    FROM captured
    JOIN lines USING (trace_id, stack_id)
    WHERE lines.name IS NOT NULL
    UNION ALL
    SELECT trace_id, name, 0, 0, device_ns, 0
    FROM captured
)
SELECT
    traces.trace, traces.rank, parts.trace_id, parts.name,
    CAST(sum(parts.call_count) AS BIGINT) AS call_count,
    CAST(sum(parts.host_self_ns) AS BIGINT) AS host_self_ns,
    CAST(sum(parts.device_ns) AS BIGINT) AS device_ns,
    CAST(sum(parts.idle_ns) AS BIGINT) AS idle_ns
FROM parts
JOIN canonical.traces AS traces USING (trace_id)
WHERE NOT is_profiler_frame(parts.name)
GROUP BY traces.trace, traces.rank, parts.trace_id, parts.name
ORDER BY parts.trace_id, device_ns DESC, idle_ns DESC, parts.name
