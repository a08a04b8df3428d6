-- One row per trace, device and cause: what removing this cause alone saves, on its rank and on the run.
--
-- Both numbers are bounds: the most by which the analysis window gets shorter if the cause costs nothing and everything
-- else stays as recorded. One pass over all launches and GPU operations finds them. The rank's bound assumes that the
-- other ranks keep up. The run's bound removes the cause on all ranks and keeps their waits for each other in
-- collectives, so a rank that only waits saves what the late rank saves. Bounds overlap, so never sum them.
--
-- columns: trace, rank, device
--   cause          VARCHAR  host.* or dev.* bucket of the time ledger
--   owned_ns       BIGINT   time of the window that belongs to this cause alone; owned times add up
--   standalone_ns  BIGINT   bound for the rank; NULL: see abstains
--   standalone_share DOUBLE standalone_ns / window_ns
--   run_ns         BIGINT   bound for the run; NULL: ranks are missing, or their collectives could not be matched
--   run_share      DOUBLE   run_ns / window_ns of the slowest device
--   window_ns      BIGINT   length of the device's analysis window
--   abstains       VARCHAR  why the rank's bound cannot be trusted; NULL: it can be trusted
WITH slowest AS (
    SELECT max(window_ns) AS run_window_ns
    FROM attribution.windows
)
SELECT
    trace, rank, device, cause, owned_ns, bound_ns AS standalone_ns,
    bound_ns / nullif(window_ns, 0) AS standalone_share,
    run_ns,
    run_ns / nullif(run_window_ns, 0) AS run_share,
    window_ns, bound_abstains AS abstains
FROM attribution.cause_bounds
JOIN attribution.windows USING (trace_id, device)
JOIN canonical.traces USING (trace_id)
CROSS JOIN slowest
ORDER BY trace_id, device, standalone_ns DESC NULLS LAST, cause
