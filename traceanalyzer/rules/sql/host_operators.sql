-- One row per trace without GPU work and operator that its steps call: its calls there, and its time without the operators
-- inside it, on every thread; the ten largest of each trace.
WITH ledgers AS (
    SELECT DISTINCT trace, trace_id, thread_id, step_count
    FROM host_ledger
),
marked AS (
    SELECT
        slices.trace_id,
        slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        row_number() OVER (PARTITION BY slices.trace_id ORDER BY slices.start_ns) AS position,
        count(*) OVER (PARTITION BY slices.trace_id) AS marked_count
    FROM host_slices AS slices
    SEMI JOIN ledgers USING (trace_id, thread_id)
    WHERE marks_step(slices.category, slices.raw_category, slices.name)
      -- The step in which the recording stopped is left out.
      AND (slices.trace_id, slices.slice_id) NOT IN (
          SELECT (arguments.trace_id, arguments.event_id)
          FROM event_args AS arguments
          SEMI JOIN ledgers USING (trace_id)
          WHERE is_cut(arguments.args)
      )
),
spans AS (
    SELECT trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns
    FROM marked
    WHERE position > 1 OR marked_count < 4
    GROUP BY trace_id
),
ops AS (
    SELECT
        ledgers.trace,
        slices.trace_id,
        slices.slice_id,
        slices.op_id,
        coalesce(slices.name, '(no name)') AS name,
        slices.dur_ns
    FROM host_slices AS slices
    JOIN ledgers USING (trace_id)
    LEFT JOIN spans USING (trace_id)
    WHERE slices.category = 'cpu_op'
      AND slices.start_ns >= coalesce(spans.start_ns, slices.start_ns)
      AND slices.start_ns < coalesce(spans.end_ns, slices.start_ns + 1)
),
called AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS dur_ns
    FROM ops
    WHERE op_id IS NOT NULL
    GROUP BY trace_id, op_id
)
SELECT
    ops.trace,
    ops.name,
    sum(greatest(ops.dur_ns - coalesce(called.dur_ns, 0), 0))::BIGINT AS self_ns,
    count(*) AS call_count
FROM ops
LEFT JOIN called USING (trace_id, slice_id)
GROUP BY ops.trace, ops.name
QUALIFY row_number() OVER (PARTITION BY ops.trace ORDER BY self_ns DESC, ops.name) <= 10
ORDER BY ops.trace, self_ns DESC, ops.name
