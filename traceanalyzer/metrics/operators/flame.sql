-- One row per trace, kind and stack: the values of a flame graph, in the folded form that other tools read.
--
-- A stack is the names of call_tree from the outermost slice to the innermost, joined by semicolons; in names, a semicolon
-- becomes a colon and a line break a space. Values are of the stack itself, so that those of a kind add up:
-- device: durations of GPU operations, below the stack of their launch call, with the operation's name as last frame; work
-- whose launch is not in the trace lies below (not linked), so that the sum is that of all GPU operations; 0 where they
-- took no time. Work of a replayed graph lies below the stack of the graph's launch and the operators that launched it when
-- the graph was captured (captured_calls), the outermost marked "in the capture".
-- host: self time of host slices. idle: time that devices waited for the host, on the stack of the slice that is to blame;
-- what the ledger blames on no host slice lies below (no host stack), by its bucket. memory: bytes that the framework
-- allocated on devices, on the stack of the operator that made them.
--
-- columns: trace, rank, trace_id
--   kind      VARCHAR  device, host, idle or memory
--   stack     VARCHAR  frames, the outermost first, joined by semicolons
--   value     BIGINT   nanoseconds; bytes for memory
WITH RECURSIVE
nodes AS MATERIALIZED (
    SELECT
        trace_id, stack_id, parent_stack_id,
        translate(coalesce(name, '(no name)'), e';\n\r', ':  ') AS frame,
        host_self_ns, idle_self_ns
    FROM call_tree
),
paths AS (
    SELECT trace_id, stack_id, frame AS stack
    FROM nodes
    WHERE parent_stack_id IS NULL
    UNION ALL
    SELECT nodes.trace_id, nodes.stack_id, paths.stack || ';' || nodes.frame
    FROM paths
    JOIN nodes ON nodes.trace_id = paths.trace_id AND nodes.parent_stack_id = paths.stack_id
),
captured_paths AS (
    SELECT trace_id, call_id, translate(coalesce(name, '(no name)'), e';\n\r', ':  ') || ' (in the capture)' AS stack
    FROM attribution.captured_calls
    WHERE parent_id IS NULL OR parent_id >= 0
    UNION ALL
    SELECT inner_calls.trace_id, inner_calls.call_id, captured_paths.stack || ';' || translate(coalesce(inner_calls.name, '(no name)'), e';\n\r', ':  ')
    FROM captured_paths
    JOIN attribution.captured_calls AS inner_calls
      ON inner_calls.trace_id = captured_paths.trace_id AND inner_calls.parent_id = captured_paths.call_id
),
device_work AS (
    SELECT
        ops.trace_id, slices.stack_id,
        captured_paths.stack || ';' AS captured,
        coalesce(ops.name, '(no name)') AS name,
        sum(ops.dur_ns) AS value
    FROM canonical.gpu_ops AS ops
    LEFT JOIN attribution.captured_owners AS owners ON owners.trace_id = ops.trace_id AND owners.op_id = ops.op_id
    LEFT JOIN captured_paths ON captured_paths.trace_id = owners.trace_id AND captured_paths.call_id = owners.call_id
    LEFT JOIN canonical.host_slices AS slices
           ON slices.trace_id = ops.trace_id AND slices.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    GROUP BY ALL
),
allocated AS (
    SELECT allocations.trace_id, slices.stack_id, sum(allocations.size_bytes) AS value
    FROM memory_allocations AS allocations
    LEFT JOIN canonical.host_slices AS slices
           ON slices.trace_id = allocations.trace_id
          AND slices.slice_id = allocations.operator_id
          AND slices.category = 'cpu_op'
    WHERE allocations.place = 'device'
    GROUP BY ALL
),
waits AS (
    SELECT pieces.trace_id, pieces.bucket, sum(pieces.dur_ns) AS value
    FROM (
        SELECT
            trace_id, bucket, dur_ns,
            CASE WHEN bucket LIKE 'host.%' AND blame_kind = 'slice' THEN blame_id END AS slice_id
        FROM attribution.ledger_rows
        WHERE bucket <> 'compute'
    ) AS pieces
    ANTI JOIN canonical.host_slices AS slices USING (trace_id, slice_id)
    GROUP BY ALL
),
flames AS (
    SELECT
        device_work.trace_id,
        'device' AS kind,
        coalesce(paths.stack, '(not linked)') || ';' || coalesce(device_work.captured, '') || translate(device_work.name, e';\n\r', ':  ') AS stack,
        device_work.value
    FROM device_work
    LEFT JOIN paths ON paths.trace_id = device_work.trace_id AND paths.stack_id = device_work.stack_id
    UNION ALL
    SELECT trace_id, 'host', paths.stack, nodes.host_self_ns
    FROM nodes
    JOIN paths USING (trace_id, stack_id)
    UNION ALL
    SELECT trace_id, 'idle', paths.stack, nodes.idle_self_ns
    FROM nodes
    JOIN paths USING (trace_id, stack_id)
    UNION ALL
    SELECT trace_id, 'idle', '(no host stack);' || translate(bucket, ';', ':'), value
    FROM waits
    UNION ALL
    SELECT allocated.trace_id, 'memory', coalesce(paths.stack, '(outside operators)'), allocated.value
    FROM allocated
    LEFT JOIN paths ON paths.trace_id = allocated.trace_id AND paths.stack_id = allocated.stack_id
)
SELECT
    traces.trace, traces.rank, flames.trace_id, flames.kind, flames.stack,
    TRY_CAST(sum(flames.value) AS BIGINT) AS value
FROM flames
JOIN canonical.traces AS traces USING (trace_id)
-- An operation that took no time was measured too: its stack is there.
WHERE flames.value > 0 OR flames.kind = 'device'
GROUP BY flames.trace_id, traces.trace, traces.rank, flames.kind, flames.stack
ORDER BY flames.trace_id, flames.kind, value DESC, flames.stack
