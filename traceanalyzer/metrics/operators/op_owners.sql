-- One row per GPU operation: the operators, the module and the line of Python on whose behalf it ran.
--
-- Owners enclose the launch call on its thread or, where that call is not in the trace, the operator that the operation
-- names. A backward operation has no module around it: it belongs to the module around the forward operator with the
-- same sequence number. Of several, the last to start counts; where forward operators of two threads have that number,
-- there is none. The owners of an operation in a replayed graph are those that a capture of the graph shows around its
-- launch (captured_owners): they lie where owner_id says, and thread, stack and outermost operator are then NULL. Accumulated gradients, optimizers and communication hooks belong to no module. NULL: there is none, or
-- it was not recorded.
--
-- columns: trace, rank, device, trace_id
--   op_id              BIGINT   gpu_ops.op_id
--   owner_id           INTEGER  where the slices lie that follow: trace_id, or of a captured launch the capture
--                               (capture_files.capture_id)
--   thread_id          INTEGER  thread of the launch call or operator; NULL: neither is in the trace
--   at_id              BIGINT   that launch call, else that operator (host_slices.slice_id)
--   stack_id           BIGINT   the stack of host slices that ends with it (host_slices.stack_id)
--   operator_id        BIGINT   innermost operator (host_slices.slice_id); of a captured launch the call
--                               (captured_calls.call_id)
--   outer_operator_id  BIGINT   outermost operator on that thread (host_slices.slice_id)
--   autograd_id        BIGINT   outermost node of the backward pass that runs around it (host_slices.slice_id)
--   forward_id         BIGINT   forward operator of that node (host_slices.slice_id)
--   python_id          BIGINT   innermost Python frame (host_slices.slice_id)
--   module_id          BIGINT   innermost module, of a backward operation that of its forward operator
--                               (host_slices.slice_id)
--   module_link        VARCHAR  stack: the module is around the launch; forward: around the forward operator; capture: around
--                               the captured launch; NULL: none
--   is_backward        BOOLEAN  an autograd node runs around it
WITH anchors AS MATERIALIZED (
    SELECT
        ops.trace_id, ops.op_id, ops.device, ops.cpu_op_id AS operator_id,
        coalesce(ops.python_id, around.python_id) AS python_id,
        around.slice_id AS at_id, around.thread_id, around.start_ns, around.stack_id, around.module_id
    FROM canonical.gpu_ops AS ops
    LEFT JOIN canonical.host_slices AS around
           ON around.trace_id = ops.trace_id AND around.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
),
outermost AS (
    SELECT trace_id, thread_id, start_ns, start_ns + dur_ns AS end_ns, slice_id
    FROM canonical.host_slices
    WHERE category = 'cpu_op' AND op_id IS NULL
),
-- Nodes of the backward pass name the forward pass's thread.
autograd_nodes AS (
    SELECT trace_id, thread_id, start_ns, start_ns + dur_ns AS end_ns, slice_id, sequence
    FROM canonical.host_slices
    WHERE category = 'cpu_op' AND forward_thread IS NOT NULL
),
-- Of nested nodes, the outermost counts: the nodes inside share its sequence number, unless one backward pass runs
-- another.
outer_nodes AS (
    SELECT *
    FROM autograd_nodes
    QUALIFY coalesce(
        end_ns > max(end_ns) OVER (
            PARTITION BY trace_id, thread_id
            ORDER BY start_ns, end_ns DESC, slice_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        TRUE
    )
),
forward_operators AS (
    SELECT
        trace_id, sequence,
        arg_max(module_id, start_ns) AS module_id,
        arg_max(slice_id, start_ns) AS slice_id
    FROM canonical.host_slices
    WHERE category = 'cpu_op' AND sequence IS NOT NULL AND forward_thread IS NULL
    GROUP BY trace_id, sequence
    HAVING count(DISTINCT thread_id) = 1
),
around_anchors AS (
    SELECT
        anchors.*,
        CASE WHEN anchors.start_ns < outermost.end_ns THEN outermost.slice_id END AS outer_operator_id,
        CASE WHEN anchors.start_ns < nodes.end_ns THEN nodes.slice_id END AS autograd_id,
        CASE WHEN anchors.start_ns < nodes.end_ns THEN nodes.sequence END AS sequence
    FROM anchors
    ASOF LEFT JOIN outermost
        ON outermost.trace_id = anchors.trace_id
       AND outermost.thread_id = anchors.thread_id
       AND outermost.start_ns <= anchors.start_ns
    ASOF LEFT JOIN outer_nodes AS nodes
        ON nodes.trace_id = anchors.trace_id
       AND nodes.thread_id = anchors.thread_id
       AND nodes.start_ns <= anchors.start_ns
)
SELECT
    traces.trace, traces.rank, ops.device, ops.trace_id, ops.op_id, ops.trace_id AS owner_id, ops.thread_id,
    ops.at_id, ops.stack_id, ops.operator_id, ops.outer_operator_id, ops.autograd_id,
    forward.slice_id AS forward_id, ops.python_id,
    coalesce(ops.module_id, forward.module_id) AS module_id,
    CASE WHEN ops.module_id IS NOT NULL THEN 'stack' WHEN forward.module_id IS NOT NULL THEN 'forward' END AS module_link,
    ops.autograd_id IS NOT NULL AS is_backward
FROM around_anchors AS ops
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN forward_operators AS forward ON forward.trace_id = ops.trace_id AND forward.sequence = ops.sequence
ANTI JOIN attribution.captured_owners AS captured ON captured.trace_id = ops.trace_id AND captured.op_id = ops.op_id
UNION ALL
SELECT
    traces.trace, traces.rank, ops.device, ops.trace_id, ops.op_id, captured.owner_id, NULL, captured.at_id,
    NULL, captured.call_id, NULL, NULL, NULL, captured.python_id, captured.module_id,
    CASE WHEN captured.module_id IS NOT NULL THEN 'capture' END,
    FALSE
FROM attribution.captured_owners AS captured
JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
JOIN canonical.traces AS traces USING (trace_id)
