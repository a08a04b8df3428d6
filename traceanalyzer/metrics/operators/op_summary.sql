-- One row per trace, operator and input shape: how often the operator ran, and its time on the host and on the device.
--
-- Plain sums over calls on all threads and devices: nested calls of one operator each count, and kernels that run at
-- the same time count in full. The total of an operator includes what it calls. Self time on the host is the duration
-- minus the operators that it calls directly and minus its own runtime and driver calls (api_sum_ns). Self time on the
-- device is the durations of the kernels, copies and memsets that the operator itself launched. A call whose only child
-- operator has the same name counts once with that child, with the shapes of the outer call. Operators are the
-- framework's (cpu_op); annotations are not operators. Calls that a capture shows in a replayed graph (captured_calls)
-- count once a replay, with no time on the host.
-- Source: torch-tb-profiler 0.4.3, node.py and op_agg.py, the operator view grouped by operator and input shape.
--
-- columns: trace, rank
--   name               VARCHAR  operator
--   input_shapes       VARCHAR  shapes of its inputs as written, a JSON list; NULL: not recorded
--   call_count         BIGINT   calls; of an operator that a compiler only traced (traced_calls): none
--   host_sum_ns        BIGINT   sum of durations
--   host_self_sum_ns   BIGINT   host_sum_ns without the operators, runtime and driver calls inside
--   api_sum_ns         BIGINT   runtime and driver calls made by the operator itself
--   device_sum_ns      BIGINT   sum of durations of the GPU operations launched inside the operator
--   device_self_sum_ns BIGINT   sum of durations of the GPU operations that the operator itself launched
WITH RECURSIVE ops AS MATERIALIZED (
    SELECT
        trace_id, slice_id, op_id AS parent_id, host_slices.name,
        CASE WHEN has_shapes THEN input_shapes END AS input_shapes,
        dur_ns
    FROM host_slices
    JOIN canonical.traces USING (trace_id)
    WHERE category = 'cpu_op'
    UNION ALL
    SELECT trace_id, call_id, parent_id, name, input_shapes, 0
    FROM attribution.captured_calls
),
-- Operators that are merged with the one around them, and the shapes that they take from it.
only_children AS (
    SELECT trace_id, parent_id, any_value(slice_id) AS slice_id, any_value(name) AS name
    FROM ops
    WHERE parent_id IS NOT NULL
    GROUP BY trace_id, parent_id
    HAVING count(*) = 1
),
merged AS (
    SELECT only_children.trace_id, only_children.slice_id, parent.input_shapes
    FROM only_children
    JOIN ops AS parent
      ON parent.trace_id = only_children.trace_id
     AND parent.slice_id = only_children.parent_id
     AND parent.name = only_children.name
),
calls AS (
    SELECT trace_id, slice_id, parent_id, op_id, dur_ns
    FROM api_calls
    WHERE op_id IS NOT NULL
),
apis AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS api_ns
    FROM calls
    ANTI JOIN calls AS outer_call ON outer_call.trace_id = calls.trace_id AND outer_call.slice_id = calls.parent_id
    GROUP BY trace_id, op_id
),
own_work AS (
    SELECT gpu_ops.trace_id, coalesce(captured.call_id, gpu_ops.cpu_op_id) AS slice_id, sum(dur_ns) AS device_self_ns
    FROM gpu_ops
    LEFT JOIN attribution.captured_owners AS captured USING (trace_id, op_id)
    WHERE coalesce(captured.call_id, gpu_ops.cpu_op_id) IS NOT NULL
    GROUP BY ALL
),
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
-- What lies in an operator: a row for each part instead of a join for each kind, so that operators are hashed once.
-- Where a query is recursive, DuckDB gives any union the types of its first rows, and 0 alone is a small integer.
parts AS (
    SELECT
        trace_id, parent_id AS slice_id, dur_ns AS inner_ns,
        0::BIGINT AS api_ns,
        0::BIGINT AS device_ns,
        0::BIGINT AS device_self_ns
    FROM ops
    WHERE parent_id IS NOT NULL
    UNION ALL
    SELECT trace_id, slice_id, api_ns, api_ns, 0, 0
    FROM apis
    UNION ALL
    SELECT trace_id, slice_id, 0, 0, 0, device_self_ns
    FROM own_work
    UNION ALL
    SELECT trace_id, slice_id, 0, 0, device_ns, 0
    FROM handed_up
),
amounts AS (
    SELECT
        trace_id, slice_id, name, input_shapes,
        if(traced.slice_id IS NULL, 1, 0) AS call_count,
        dur_ns AS host_ns, dur_ns AS host_self_ns,
        0::BIGINT AS api_ns,
        0::BIGINT AS device_ns,
        0::BIGINT AS device_self_ns
    FROM ops
    LEFT JOIN traced_calls AS traced USING (trace_id, slice_id)
    UNION ALL
    SELECT trace_id, slice_id, ops.name, ops.input_shapes, 0, 0, -inner_ns, api_ns, device_ns, device_self_ns
    FROM parts
    JOIN ops USING (trace_id, slice_id)
),
grouped AS (
    SELECT
        amounts.trace_id, amounts.name,
        if(merged.slice_id IS NULL, amounts.input_shapes, merged.input_shapes) AS input_shapes,
        sum(call_count) FILTER (WHERE merged.slice_id IS NULL) AS call_count,
        sum(host_ns) FILTER (WHERE merged.slice_id IS NULL) AS host_ns,
        sum(host_self_ns) AS host_self_ns,
        sum(api_ns) AS api_ns,
        sum(device_ns) FILTER (WHERE merged.slice_id IS NULL) AS device_ns,
        sum(device_self_ns) AS device_self_ns
    FROM amounts
    LEFT JOIN merged ON merged.trace_id = amounts.trace_id AND merged.slice_id = amounts.slice_id
    GROUP BY ALL
)
SELECT
    trace, rank, name, input_shapes,
    CAST(coalesce(call_count, 0) AS BIGINT) AS call_count,
    CAST(coalesce(host_ns, 0) AS BIGINT) AS host_sum_ns,
    CAST(host_self_ns AS BIGINT) AS host_self_sum_ns,
    CAST(api_ns AS BIGINT) AS api_sum_ns,
    CAST(coalesce(device_ns, 0) AS BIGINT) AS device_sum_ns,
    CAST(device_self_ns AS BIGINT) AS device_self_sum_ns
FROM grouped
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device_self_sum_ns DESC, host_self_sum_ns DESC, name, input_shapes
