-- One row per trace without GPU work and operator that its steps call: its calls there, and its time without the operators
-- inside it, on every thread; covered_ns: the part of the window in which at least one thread runs it. The ten largest of
-- each trace. Those that only call Python are none.
WITH ledgers AS (
    SELECT trace, trace_id, min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns
    FROM host_ledger_rows
    WHERE kept
    GROUP BY trace, trace_id
),
ops AS (
    SELECT
        ledgers.trace, slices.trace_id, slices.slice_id, slices.op_id,
        coalesce(slices.name, '(no name)') AS name,
        slices.dur_ns,
        uncovered_ns(
            slices.start_ns,
            slices.start_ns + slices.dur_ns,
            max(slices.start_ns + slices.dur_ns) OVER (
                PARTITION BY slices.trace_id, slices.name
                ORDER BY slices.start_ns, slices.slice_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS new_ns
    FROM host_slices AS slices
    JOIN ledgers USING (trace_id)
    WHERE slices.category = 'cpu_op'
      AND NOT calls_python(coalesce(slices.name, ''))
      AND slices.start_ns >= ledgers.start_ns
      AND slices.start_ns < ledgers.end_ns
),
called AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS dur_ns
    FROM ops
    WHERE op_id IS NOT NULL
    GROUP BY trace_id, op_id
)
SELECT
    ops.trace, ops.name,
    sum(greatest(ops.dur_ns - coalesce(called.dur_ns, 0), 0))::BIGINT AS self_ns,
    least(self_ns, sum(ops.new_ns))::BIGINT AS covered_ns,
    count(*) AS call_count
FROM ops
LEFT JOIN called USING (trace_id, slice_id)
GROUP BY ops.trace, ops.name
QUALIFY row_number() OVER (PARTITION BY ops.trace ORDER BY covered_ns DESC, ops.name) <= 10
ORDER BY ops.trace, covered_ns DESC, ops.name
