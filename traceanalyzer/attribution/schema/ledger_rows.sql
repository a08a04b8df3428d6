-- One row per piece of a device's time with one reason: compute, or why the next compute kernel could not start yet.
-- The rows of a device are disjoint and cover [first GPU op's start, last GPU op's end) exactly; where the first step begins
-- ahead of its first op (windows), they begin with the step. Where the host was late, the length of a row is its cause's
-- share of that delay, and the rows of the causes follow each other.
CREATE TABLE ledger_rows (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    row_id        BIGINT NOT NULL,   -- number of the row on its device, in time order
    step          BIGINT,            -- steps.step; NULL: outside steps
    kept          BOOLEAN NOT NULL,  -- inside the analysis window
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration, above 0
    bucket        VARCHAR NOT NULL,  -- compute, host.*, dev.* or edge.*
    cause         VARCHAR,           -- cause that a fix could remove: the bucket of host.* and resolved dev.* rows; NULL: none
    blame_rank    INTEGER,           -- of dev.straggler_wait: the rank that arrived last; NULL: not known
    blame_id      BIGINT,            -- host slice or GPU op that caused most of the row; NULL: none is recorded
    blame_kind    VARCHAR,           -- slice or op
    blame_name    VARCHAR,           -- its name
    blame_op      VARCHAR,           -- operator around it
    blame_annotation VARCHAR,        -- innermost annotation around it
    blame_python  VARCHAR,           -- innermost Python frame around it
    confidence    VARCHAR NOT NULL,  -- resolved, coincident (no recorded dependency, but only one op fits) or unresolved
    late_issue    BOOLEAN NOT NULL   -- of dev.*: the awaited op was itself issued during the gap and began at once, so an earlier host removes the wait too
);
