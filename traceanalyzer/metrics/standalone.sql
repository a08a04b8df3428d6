-- One row per trace, device and cause: what removing that cause alone saves, on its rank and on the run.
--
-- Both are bounds: the most that the analysis window would be shorter if the cause cost nothing and everything else
-- stayed as recorded, found by one pass over all launches and GPU operations. The bound of a rank takes it that the
-- other ranks keep step; the bound of the run removes the cause on all ranks and lets them wait for each other in their
-- collectives, so that a rank which only waits wins what the late one does. Bounds overlap and are never summed.
--
-- columns:
--   trace          VARCHAR  name of the trace
--   rank           INTEGER  rank in the job
--   device         INTEGER  device
--   cause          VARCHAR  host.* or dev.* bucket of the time ledger
--   owned_ns       BIGINT   time of the window that the cause alone owns; owned times add up
--   standalone_ns  BIGINT   bound on the rank; NULL: see abstains
--   standalone_share DOUBLE standalone_ns / window_ns
--   run_ns         BIGINT   bound on the run; NULL: ranks are missing, or their collectives could not be matched
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
    cause,
    owned_ns,
    bound_ns AS standalone_ns,
    bound_ns / nullif(window_ns, 0) AS standalone_share,
    run_ns,
    run_ns / nullif(run_window_ns, 0) AS run_share,
    window_ns,
    bound_abstains AS abstains
FROM attribution.cause_bounds
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
CROSS JOIN slowest
ORDER BY trace_id, device, standalone_ns DESC NULLS LAST, cause
