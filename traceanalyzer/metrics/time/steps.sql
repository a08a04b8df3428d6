-- One row per trace, device and step: when it ran on the host and on the device, and whether the analysis counts it.
--
-- Steps are the profiler's own marks (ProfilerStep#N), else annotations that name a step, else the spans between
-- optimizer steps, else a sequence of launches that recurs. On a device, a step starts at the first compute operation
-- that was launched at or after the step's start on the host, on the stream with the most compute; it ends where the
-- next step starts. So neither a host that runs ahead nor streams that prefetch distort it, and no idle time falls
-- between two steps. If the first step is kept and no step follows the kept ones, it starts on the device with its
-- start on the host, or when the work queued before has ended: it waited for what lies ahead of its first operation
-- (steps from recurring launches start with a launch). Of four or more steps, the first is dropped as warm-up. A last
-- step whose end is not in the trace is dropped while two steps remain.
--
-- columns: trace, rank, device
--   step           BIGINT   number of the step
--   name           VARCHAR  name of the step, as written
--   step_source    VARCHAR  as in attribution.windows: ProfilerStep, annotation, optimizer, launches, device or programs
--   host_start_ns  BIGINT   start on the host
--   host_dur_ns    BIGINT   duration on the host
--   start_ns       BIGINT   start on the device; NULL: the step has no GPU work
--   dur_ns         BIGINT   duration on the device
--   op_count       BIGINT   GPU operations launched in it
--   compute_ns     BIGINT   time in which a compute kernel runs
--   compute_share  DOUBLE   compute_ns / dur_ns
--   kept           BOOLEAN  the step is in the analysis window
--   drop_reason    VARCHAR  why the step is not kept: no GPU work, warm-up, end not in the trace, cut short, not chosen
WITH compute AS (
    SELECT trace_id, device, step, CAST(sum(dur_ns) AS BIGINT) AS compute_ns
    FROM attribution.ledger_rows
    WHERE bucket = 'compute' AND step IS NOT NULL
    GROUP BY trace_id, device, step
)
SELECT
    trace, rank, device, steps.step, steps.name, windows.step_source, host_start_ns,
    host_end_ns - host_start_ns AS host_dur_ns,
    steps.start_ns,
    steps.end_ns - steps.start_ns AS dur_ns,
    op_count,
    CASE WHEN steps.start_ns IS NOT NULL THEN coalesce(compute.compute_ns, 0) END AS compute_ns,
    coalesce(compute.compute_ns, 0) / nullif(steps.end_ns - steps.start_ns, 0) AS compute_share,
    kept, drop_reason
FROM attribution.steps
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
LEFT JOIN compute USING (trace_id, device, step)
ORDER BY trace_id, device, host_start_ns
