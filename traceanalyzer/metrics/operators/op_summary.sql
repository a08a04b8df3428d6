-- One row per trace, operator and input shape: how often the operator ran, and its time on the host and on the device.
--
-- Plain sums over calls on all threads and devices: nested calls of one operator each count, and kernels that run at
-- the same time count in full. The total of an operator includes what it calls. Self time on the host is the duration
-- minus the operators that it calls directly and minus its own runtime and driver calls (api_sum_ns). Self time on the
-- device is the durations of the kernels, copies and memsets that the operator itself launched. A call whose only child
-- operator has the same name is merged with that child, and has its shapes. Operators are the framework's (cpu_op);
-- annotations are not operators.
-- Source: torch-tb-profiler 0.4.3, node.py and op_agg.py, the operator view grouped by operator and input shape.
--
-- columns:
--   trace              VARCHAR  name of the trace
--   rank               INTEGER  rank in the job
--   name               VARCHAR  operator
--   input_shapes       VARCHAR  shapes of its inputs as written, a JSON list; NULL: not recorded
--   call_count         BIGINT   calls
--   host_sum_ns        BIGINT   sum of durations
--   host_self_sum_ns   BIGINT   host_sum_ns without the operators, runtime and driver calls inside
--   api_sum_ns         BIGINT   runtime and driver calls made by the operator itself
--   device_sum_ns      BIGINT   sum of durations of the GPU operations launched inside the operator
--   device_self_sum_ns BIGINT   sum of durations of the GPU operations that the operator itself launched
WITH RECURSIVE ops AS MATERIALIZED (
    SELECT
        trace_id,
        slice_id,
        op_id AS parent_id,
        host_slices.name,
        CASE WHEN has_shapes THEN input_shapes END AS input_shapes,
        dur_ns
    FROM host_slices
    JOIN canonical.traces USING (trace_id)
    WHERE category = 'cpu_op'
),
children AS (
    SELECT
        trace_id,
        parent_id AS slice_id,
        count(*) AS child_count,
        sum(dur_ns) AS child_ns
    FROM ops
    WHERE parent_id IS NOT NULL
    GROUP BY trace_id, parent_id
),
calls AS (
    SELECT
        trace_id,
        slice_id,
        parent_id,
        op_id,
        dur_ns
    FROM host_slices
    WHERE category IN ('runtime', 'driver')
      AND op_id IS NOT NULL
),
apis AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS api_ns
    FROM calls
    ANTI JOIN calls AS outer_call ON outer_call.trace_id = calls.trace_id AND outer_call.slice_id = calls.parent_id
    GROUP BY trace_id, op_id
),
own_work AS (
    SELECT trace_id, cpu_op_id AS slice_id, sum(dur_ns) AS device_self_ns
    FROM gpu_ops
    WHERE cpu_op_id IS NOT NULL
    GROUP BY trace_id, cpu_op_id
),
-- Every operator passes its own work, and the work from operators below, to the operator around it.
handed_up AS (
    SELECT trace_id, slice_id, device_self_ns AS device_ns
    FROM own_work
    UNION ALL
    SELECT ops.trace_id, ops.parent_id, sum(device_ns)
    FROM handed_up
    JOIN ops USING (trace_id, slice_id)
    WHERE ops.parent_id IS NOT NULL
    GROUP BY ops.trace_id, ops.parent_id
),
all_work AS (
    SELECT trace_id, slice_id, sum(device_ns) AS device_ns
    FROM handed_up
    GROUP BY trace_id, slice_id
),
one_each AS (
    SELECT
        ops.trace_id,
        ops.name,
        coalesce(parent.name = ops.name AND siblings.child_count = 1, FALSE) AS is_same,
        CASE WHEN is_same THEN parent.input_shapes ELSE ops.input_shapes END AS input_shapes,
        ops.dur_ns,
        coalesce(children.child_ns, 0) AS child_ns,
        coalesce(api_ns, 0) AS api_ns,
        coalesce(device_ns, 0) AS device_ns,
        coalesce(device_self_ns, 0) AS device_self_ns
    FROM ops
    LEFT JOIN ops AS parent ON parent.trace_id = ops.trace_id AND parent.slice_id = ops.parent_id
    LEFT JOIN children AS siblings ON siblings.trace_id = ops.trace_id AND siblings.slice_id = ops.parent_id
    LEFT JOIN children ON children.trace_id = ops.trace_id AND children.slice_id = ops.slice_id
    LEFT JOIN apis ON apis.trace_id = ops.trace_id AND apis.slice_id = ops.slice_id
    LEFT JOIN own_work ON own_work.trace_id = ops.trace_id AND own_work.slice_id = ops.slice_id
    LEFT JOIN all_work ON all_work.trace_id = ops.trace_id AND all_work.slice_id = ops.slice_id
)
SELECT
    trace,
    rank,
    name,
    input_shapes,
    count(*) FILTER (WHERE NOT is_same) AS call_count,
    CAST(coalesce(sum(dur_ns) FILTER (WHERE NOT is_same), 0) AS BIGINT) AS host_sum_ns,
    CAST(sum(dur_ns - child_ns - api_ns) AS BIGINT) AS host_self_sum_ns,
    CAST(sum(api_ns) AS BIGINT) AS api_sum_ns,
    CAST(coalesce(sum(device_ns) FILTER (WHERE NOT is_same), 0) AS BIGINT) AS device_sum_ns,
    CAST(sum(device_self_ns) AS BIGINT) AS device_self_sum_ns
FROM one_each
JOIN canonical.traces USING (trace_id)
GROUP BY trace_id, trace, rank, name, input_shapes
ORDER BY trace_id, device_self_sum_ns DESC, host_self_sum_ns DESC, name, input_shapes
