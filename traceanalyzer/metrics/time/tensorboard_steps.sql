-- One row per trace, device and step as the TensorBoard profiler plugin delimits steps.
--
-- A step ends when the host has left it and the last operation launched in it has ended. It starts at its start on the
-- host, but not before the end of the previous step; the first step waits for work that was launched before all steps.
-- The last step with launches is left out, with all later steps, if it launched less than 0.8 times as much as the step
-- before: the recording probably ended during it. A trace without steps is one step, from the first to the last event
-- of its operators and of the device. Differences from the plugin: every kind of step that the analysis knows counts
-- (`steps`), and every device has its own ends. The analysis itself uses `steps`, which a host that runs ahead does not
-- distort.
-- Source: torch-tb-profiler 0.4.3, event_parser.py.
--
-- columns: trace, rank, device, trace_id
--   step      BIGINT   number of the step; NULL: the trace has no steps
--   name      VARCHAR  name of the step, as written
--   start_ns  BIGINT   start
--   dur_ns    BIGINT   duration
--   op_count  BIGINT   GPU operations launched in it
WITH launched AS (
    SELECT
        ops.trace_id, ops.device, ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns,
        calls.start_ns AS call_start_ns,
        calls.start_ns + calls.dur_ns AS call_end_ns
    FROM gpu_ops AS ops
    LEFT JOIN host_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
),
placed AS (
    SELECT
        launched.*,
        CASE WHEN call_end_ns <= steps.host_end_ns THEN steps.step END AS step
    FROM launched
    ASOF LEFT JOIN attribution.steps AS steps
        ON steps.trace_id = launched.trace_id
        AND steps.device = launched.device
        AND steps.host_start_ns <= launched.call_start_ns
),
work AS (
    SELECT trace_id, device, step, count(*) AS op_count, min(start_ns) AS first_ns, max(end_ns) AS last_ns
    FROM placed
    WHERE step IS NOT NULL
    GROUP BY trace_id, device, step
),
host_steps AS (
    SELECT
        steps.trace_id, steps.device, steps.step, steps.name, host_start_ns, host_end_ns,
        coalesce(work.op_count, 0) AS op_count,
        first_ns, last_ns,
        row_number() OVER timeline AS position
    FROM attribution.steps AS steps
    LEFT JOIN work USING (trace_id, device, step)
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY host_start_ns, step)
),
-- When the device had finished the work that was launched before all steps.
readiness AS (
    SELECT first_step.trace_id, first_step.device, max(placed.end_ns) AS ready_ns
    FROM host_steps AS first_step
    JOIN placed USING (trace_id, device)
    WHERE first_step.position = 1 AND placed.step IS NULL AND placed.end_ns < first_step.first_ns
    GROUP BY first_step.trace_id, first_step.device
),
ends AS (
    SELECT
        host_steps.*,
        ready_ns,
        max(greatest(host_start_ns, host_end_ns, last_ns, CASE WHEN position = 1 THEN ready_ns END)) OVER timeline AS end_ns
    FROM host_steps
    LEFT JOIN readiness USING (trace_id, device)
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY position)
),
starts AS (
    SELECT
        *,
        greatest(host_start_ns, coalesce(lag(end_ns) OVER timeline, ready_ns)) AS start_ns,
        lag(op_count) OVER timeline AS op_count_before,
        max(CASE WHEN op_count > 0 THEN position END) OVER (PARTITION BY trace_id, device) AS last_position
    FROM ends
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY position)
),
kept AS (
    SELECT *
    FROM starts
    WHERE last_position IS NULL
       OR position < last_position
       OR position = last_position AND coalesce(0.8 * op_count_before <= op_count, TRUE)
),
whole AS (
    SELECT
        ops.trace_id, ops.device,
        least(min(ops.start_ns), any_value(host.first_ns)) AS start_ns,
        greatest(max(ops.start_ns + ops.dur_ns), any_value(host.last_ns)) AS end_ns,
        count(*) AS op_count
    FROM gpu_ops AS ops
    LEFT JOIN (
        SELECT trace_id, min(start_ns) AS first_ns, max(start_ns + dur_ns) AS last_ns
        FROM host_slices
        WHERE category = 'cpu_op' AND op_id IS NULL
        GROUP BY trace_id
    ) AS host USING (trace_id)
    ANTI JOIN attribution.steps USING (trace_id, device)
    GROUP BY ops.trace_id, ops.device
)
SELECT trace, rank, device, traces.trace_id, step, name, start_ns, end_ns - start_ns AS dur_ns, op_count
FROM (
    SELECT trace_id, device, step, name, start_ns, end_ns, op_count FROM kept
    UNION ALL
    SELECT trace_id, device, NULL, NULL, start_ns, end_ns, op_count FROM whole
) AS found
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY traces.trace_id, device, start_ns, step
