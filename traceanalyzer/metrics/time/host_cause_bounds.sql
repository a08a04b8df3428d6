-- One row per trace, device and cause: its time in the analysis window, and what removing it can save at most.
--
-- Causes are the host.* and dev.* buckets of the time ledger. Owned times add up; bounds do not, so never sum them: two
-- fixes may save the same time, or make each other possible. The bound is counterfactual: one pass over all launches
-- and GPU operations moves everything earlier that the cause delayed, except what something else would then delay.
--
-- columns: trace, rank, device
--   cause              VARCHAR  host.* or dev.* bucket
--   bound_ns           BIGINT   the most by which the window gets shorter if the cause costs nothing; NULL: see
--                               abstains
--   bound_share        DOUBLE   bound_ns / window_ns
--   owned_ns           BIGINT   time of the window that belongs to this cause alone
--   owned_share        DOUBLE   owned_ns / window_ns
--   window_ns          BIGINT   length of the analysis window: its kept steps, or the whole span if there are no steps
--   step_count         BIGINT   kept steps
--   step_share         DOUBLE   share of the kept steps in which the cause has time; NULL: no steps
--   ms_per_step        DOUBLE   owned milliseconds per step; NULL: no steps
--   step_ms            DOUBLE   mean step in milliseconds; NULL: no steps
--   worst_ms           DOUBLE   the cause's longest single stretch in milliseconds
--   worst_step         BIGINT   step of that stretch
--   worst_start_ns     BIGINT   start of that stretch
--   launch_link_share  DOUBLE   share of compute time whose launch call is in the trace
--   abstains           VARCHAR  why no bound can be trusted here; NULL: the bounds can be trusted
SELECT
    trace, rank, device, cause, bound_ns,
    bound_ns / nullif(window_ns, 0) AS bound_share,
    owned_ns,
    owned_ns / nullif(window_ns, 0) AS owned_share,
    window_ns, step_count,
    step_hits / nullif(step_count, 0) AS step_share,
    owned_ns / 1e6 / nullif(step_count, 0) AS ms_per_step,
    window_ns / 1e6 / nullif(step_count, 0) AS step_ms,
    worst_ns / 1e6 AS worst_ms,
    worst_step, worst_start_ns, launch_link_share, bound_abstains AS abstains
FROM attribution.cause_bounds
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, device, bound_ns DESC NULLS LAST, cause
