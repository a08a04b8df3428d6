-- One row per event of the replay and op that it had to wait for, beyond the two in replay_events: where an event
-- waits for many streams at once, and where it only may have waited, because no record shows which stream waits for
-- which.
CREATE TABLE replay_needs (
    trace_id        INTEGER NOT NULL,  -- traces.trace_id
    device          INTEGER NOT NULL,  -- devices.device
    position        BIGINT NOT NULL,   -- replay_events.position
    before_position BIGINT NOT NULL,   -- replay_events.position of the op that it had to wait for
    slack_ns        BIGINT NOT NULL,   -- how long that op was done before the binding constraint
    sure            BOOLEAN NOT NULL   -- it had to wait for that op; false: it may have had to
);
