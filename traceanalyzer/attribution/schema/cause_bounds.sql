-- One row per trace, device and cause that owns time of the analysis window, or whose removal could shorten it.
CREATE TABLE cause_bounds (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    cause         VARCHAR NOT NULL,  -- host.* or dev.* bucket
    bound_ns      BIGINT,            -- the most by which the window gets shorter if the cause costs nothing; NULL: windows.bound_abstains
    run_ns        BIGINT,            -- the most by which the run's window gets shorter if the cause costs nothing on any rank; NULL: ranks cannot be scanned together
    owned_ns      BIGINT NOT NULL,   -- time of the window that the ledger gives to this cause
    step_hits     INTEGER NOT NULL,  -- kept steps in which the cause owns time
    worst_ns      BIGINT NOT NULL,   -- its longest single row; 0: it owns nothing
    worst_step    BIGINT,            -- step of that row
    worst_start_ns BIGINT            -- start of that row
);
