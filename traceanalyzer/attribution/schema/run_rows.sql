-- One row per piece of the run's ledger, in time order: the time of the slowest device's window, each piece taken from the
-- device that all others waited for at that moment. Where a device waited for another one in a collective or a message, the
-- rows up to there are those of the other one, and so on from rank to rank, so the blame falls where the wait began.
-- The rows add up to the longest window. No rows where ranks cannot be followed together: see windows.run_abstains.
CREATE TABLE run_rows (
    position      BIGINT NOT NULL,   -- order in time, from 0
    trace_id      INTEGER NOT NULL,  -- trace of the device that the run waited for
    device        INTEGER NOT NULL,  -- the device
    row_id        BIGINT,            -- ledger_rows.row_id, the whole row or a part of it; NULL: before the device's first GPU op
    start_ns      BIGINT NOT NULL,   -- start on the clock of its trace
    dur_ns        BIGINT NOT NULL,   -- duration, above 0
    bucket        VARCHAR NOT NULL   -- compute, host.*, dev.* or edge.*
);
