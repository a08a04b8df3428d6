-- One row per event of the lead scan and op that it had to wait for beside the two that lead_events names: of what is
-- awaited on many streams at once, and, where no record tells which stream a call lets wait for which, of what it may
-- have waited for.
CREATE TABLE lead_needs (
    trace_id        INTEGER NOT NULL,  -- traces.trace_id
    device          INTEGER NOT NULL,  -- devices.device
    position        BIGINT NOT NULL,   -- lead_events.position
    before_position BIGINT NOT NULL,   -- the op it had to wait for: its lead_events.position
    slack_ns        BIGINT NOT NULL,   -- by how much that one was done before the binding constraint
    sure            BOOLEAN NOT NULL   -- it had to wait for it; false: it may have had to
);
