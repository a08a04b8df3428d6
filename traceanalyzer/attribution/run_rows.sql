-- One row per piece of the run's ledger, in time order: the time of the slowest device's window, each piece told by the
-- device that all others waited for just then. Where a device waited for another one in a collective or a message, its
-- time is that of the other one up to there, and so on from rank to rank: what is blamed is where the wait began.
-- The rows add up to the longest window. None where ranks cannot be followed together: windows.run_abstains.
CREATE TABLE run_rows (
    position      BIGINT NOT NULL,   -- order in time, from 0
    trace_id      INTEGER NOT NULL,  -- of the device that the run waited for
    device        INTEGER NOT NULL,  -- the device
    row_id        BIGINT,            -- ledger_rows.row_id, all of it or a part; NULL: before the device's first GPU op
    start_ns      BIGINT NOT NULL,   -- start on the clock of its trace
    dur_ns        BIGINT NOT NULL,   -- duration, above 0
    bucket        VARCHAR NOT NULL   -- compute, host.*, dev.* or edge.*
);
