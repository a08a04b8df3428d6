-- One row per trace, device and class of kernels: what it saves if all kernels of the class run twice as fast.
--
-- The time of a kernel is not what a faster kernel saves: if the host is barely ahead, or the next work waits for a
-- copy or another rank, faster kernels save little. The bound is the most by which the analysis window gets shorter, as
-- in cause_savings. `traceanalyzer whatif` answers the same question for other factors, for names of kernels, and together
-- with causes.
--
-- columns: trace, rank, device
--   class          VARCHAR  class of kernels, as in kernel_class
--   kernel_count   BIGINT   kernels of the class
--   dur_sum_ns     BIGINT   sum of their durations, including those outside the window
--   standalone_ns  BIGINT   bound for the rank; NULL: see abstains
--   standalone_share DOUBLE standalone_ns / window_ns
--   run_ns         BIGINT   bound for the run if the kernels are faster on all ranks; NULL: ranks are missing, or their
--                           collectives could not be matched
--   run_share      DOUBLE   run_ns / window_ns of the slowest device
--   window_ns      BIGINT   length of the device's analysis window
--   abstains       VARCHAR  why the rank's bound cannot be trusted; NULL: it can be trusted
WITH slowest AS (
    SELECT max(window_ns) AS run_window_ns
    FROM attribution.windows
)
SELECT
    trace, rank, device, class, op_count AS kernel_count, dur_sum_ns, bound_ns AS standalone_ns,
    bound_ns / nullif(window_ns, 0) AS standalone_share,
    run_ns,
    run_ns / nullif(run_window_ns, 0) AS run_share,
    window_ns, bound_abstains AS abstains
FROM attribution.op_bounds
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
CROSS JOIN slowest
ORDER BY trace_id, device, standalone_ns DESC NULLS LAST, class
