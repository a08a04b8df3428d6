-- One row per step and device: its interval on the host and on the device, and whether the analysis window holds it.
-- On the device a step begins with the first compute op, on the stream that computes most, that was launched at or
-- after the step's host start, and ends where the next step begins. So neither host run-ahead nor prefetching streams
-- distort it, and no time falls between two steps. The first step of a trace, where it is kept and no step follows
-- the kept ones, begins where the host begins it, or where the device is done with what was queued before.
CREATE TABLE steps (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    step          BIGINT NOT NULL,   -- number of the step as written, else counted from 0
    name          VARCHAR,           -- name as written
    host_start_ns BIGINT NOT NULL,   -- start on the host
    host_end_ns   BIGINT NOT NULL,   -- end on the host
    start_ns      BIGINT,            -- start on the device; NULL: no compute op was launched at or after its host start
    end_ns        BIGINT,            -- end on the device
    op_count      BIGINT NOT NULL,   -- GPU ops launched within its host interval
    kept          BOOLEAN NOT NULL,  -- the analysis window holds it
    drop_reason   VARCHAR            -- why not: no GPU work, warm-up, end not in the trace, cut short, not chosen; NULL: kept
);
