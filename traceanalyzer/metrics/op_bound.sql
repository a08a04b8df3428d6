-- One row per trace, device and class of kernels: what it saves if all of them run twice as fast.
--
-- A kernel's time is no saving: where the host is barely ahead, or a copy or another rank is next, faster kernels win
-- little. The bound is the most that the analysis window would be shorter, as in standalone; `traceanalyzer whatif`
-- answers the same for other factors, names of kernels, and together with causes.
--
-- columns:
--   trace          VARCHAR  name of the trace
--   rank           INTEGER  rank in the job
--   device         INTEGER  device
--   class          VARCHAR  class of kernels, as in kernel_class
--   kernel_count   BIGINT   kernels of the class
--   dur_sum_ns     BIGINT   sum of their durations, those outside the window included
--   standalone_ns  BIGINT   bound on the rank; NULL: see abstains
--   standalone_share DOUBLE standalone_ns / window_ns
--   run_ns         BIGINT   bound on the run if they are faster on all ranks; NULL: ranks are missing, or their collectives could not be matched
--   run_share      DOUBLE   run_ns / window of the slowest device
--   window_ns      BIGINT   the device's analysis window
--   abstains       VARCHAR  why no bound of the rank can be trusted; NULL: they can
WITH slowest AS (
    SELECT max(window_ns) AS run_window_ns
    FROM attribution.windows
)
SELECT
    trace,
    rank,
    device,
    class,
    op_count AS kernel_count,
    dur_sum_ns,
    bound_ns AS standalone_ns,
    bound_ns / nullif(window_ns, 0) AS standalone_share,
    run_ns,
    run_ns / nullif(run_window_ns, 0) AS run_share,
    window_ns,
    bound_abstains AS abstains
FROM attribution.op_bounds
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
CROSS JOIN slowest
ORDER BY trace_id, device, standalone_ns DESC NULLS LAST, class
