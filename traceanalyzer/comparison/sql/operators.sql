-- One row per operator called during the kept steps, or in the whole trace where no steps are known: its calls and its
-- time on the host without the operators inside it, on all traces.
WITH spans AS (
    SELECT trace_id, min(host_start_ns) AS start_ns, max(host_end_ns) AS end_ns
    FROM attribution.steps
    WHERE kept
    GROUP BY trace_id
),
numbered AS (
    SELECT
        trace_id, start_ns,
        start_ns + dur_ns AS end_ns,
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, slice_id) AS position,
        count(*) OVER (PARTITION BY trace_id) AS step_count
    FROM host_slices
    WHERE marks_step(category, raw_category, name)
),
-- Of four or more marked steps, the first is warm-up.
marked AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM numbered
    WHERE position > 1 OR step_count < 4
    GROUP BY trace_id
),
ops AS (
    SELECT slices.trace_id, slices.slice_id, slices.op_id, slices.name, slices.dur_ns
    FROM host_slices AS slices
    LEFT JOIN spans USING (trace_id)
    LEFT JOIN marked USING (trace_id)
    WHERE slices.category = 'cpu_op'
      AND slices.start_ns >= coalesce(spans.start_ns, marked.start_ns, slices.start_ns)
      AND slices.start_ns < coalesce(spans.end_ns, marked.end_ns, slices.start_ns + 1)
),
inner_ops AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS dur_ns
    FROM ops
    WHERE op_id IS NOT NULL
    GROUP BY trace_id, op_id
)
SELECT
    coalesce(ops.name, '(no name)') AS name,
    'operator' AS class,
    count(*) AS launch_count,
    sum(greatest(ops.dur_ns - coalesce(inner_ops.dur_ns, 0), 0))::BIGINT AS dur_ns
FROM ops
LEFT JOIN inner_ops USING (trace_id, slice_id)
GROUP BY coalesce(ops.name, '(no name)')
ORDER BY dur_ns DESC, name
