-- One row per trace without GPU work and operator that its steps call: its calls there, and its time without the operators
-- inside it, on every thread; shared_ns: its part of the window, in which threads that run operators at the same time share
-- that time equally, so that all parts add up to at most the window. The ten largest of each trace. Those that only call
-- Python are none.
WITH kept AS (
    SELECT trace, trace_id, start_ns, start_ns + dur_ns AS end_ns FROM host_ledger_rows WHERE kept
),
ledgers AS (
    SELECT trace, trace_id, min(start_ns) AS start_ns, max(end_ns) AS end_ns FROM kept GROUP BY trace, trace_id
),
ops AS (
    SELECT
        ledgers.trace, slices.trace_id, slices.slice_id, slices.op_id,
        coalesce(slices.name, '(no name)') AS name,
        slices.dur_ns, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns
    FROM host_slices AS slices
    JOIN ledgers USING (trace_id)
    WHERE slices.category = 'cpu_op'
      AND NOT calls_python(coalesce(slices.name, ''))
      AND slices.start_ns >= ledgers.start_ns
      AND slices.start_ns < ledgers.end_ns
),
bounds AS (
    SELECT trace_id, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS runs, 0 AS opens FROM ops WHERE op_id IS NULL
    UNION ALL
    SELECT trace_id, unnest([start_ns, end_ns]), 0, unnest([1, -1]) FROM kept
),
instants AS (
    SELECT
        trace_id, at_ns,
        if(sum(sum(opens)) OVER earlier > 0, 1 / greatest(sum(sum(runs)) OVER earlier, 1), 0) AS rate,
        coalesce(lead(at_ns) OVER earlier - at_ns, 0) AS dur_ns
    FROM bounds
    GROUP BY trace_id, at_ns
    WINDOW earlier AS (PARTITION BY trace_id ORDER BY at_ns)
),
-- A clock that runs at full speed while one thread runs operators, at half of it while two do, and not outside the window.
clock AS (
    SELECT trace_id, at_ns, rate, sum(rate * dur_ns) OVER (PARTITION BY trace_id ORDER BY at_ns) - rate * dur_ns AS shown_ns
    FROM instants
),
timed AS (
    SELECT
        ops.*,
        ends.shown_ns + ends.rate * (ops.end_ns - ends.at_ns)
        - (starts.shown_ns + starts.rate * (ops.start_ns - starts.at_ns)) AS part_ns
    FROM ops
    ASOF JOIN clock AS starts ON starts.trace_id = ops.trace_id AND starts.at_ns <= ops.start_ns
    ASOF JOIN clock AS ends ON ends.trace_id = ops.trace_id AND ends.at_ns <= ops.end_ns
),
called AS (
    SELECT trace_id, op_id AS slice_id, sum(dur_ns) AS dur_ns, sum(part_ns) AS part_ns
    FROM timed
    WHERE op_id IS NOT NULL
    GROUP BY trace_id, op_id
)
SELECT
    timed.trace, timed.name,
    sum(greatest(timed.dur_ns - coalesce(called.dur_ns, 0), 0))::BIGINT AS self_ns,
    sum(greatest(timed.part_ns - coalesce(called.part_ns, 0), 0))::BIGINT AS shared_ns,
    count(*) AS call_count
FROM timed
LEFT JOIN called USING (trace_id, slice_id)
GROUP BY timed.trace, timed.name
QUALIFY row_number() OVER (PARTITION BY timed.trace ORDER BY shared_ns DESC, timed.name) <= 10
ORDER BY timed.trace, shared_ns DESC, timed.name
