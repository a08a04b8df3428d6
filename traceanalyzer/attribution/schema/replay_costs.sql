-- One row per event of the replay and host cause: host time of that cause between the event and the one before it.
CREATE TABLE replay_costs (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    position      BIGINT NOT NULL,   -- replay_events.position
    cause         VARCHAR NOT NULL,  -- host.* bucket
    cost_ns       BIGINT NOT NULL    -- host time
);
