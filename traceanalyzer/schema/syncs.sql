-- One row per recorded synchronisation: a host or a stream waits for a stream, an event or the device. No GPU work.
CREATE TABLE syncs (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    sync_id       BIGINT NOT NULL,   -- unique in the trace; key of event_args
    kind          VARCHAR NOT NULL,  -- host waits: stream, event, device; host does not: stream_wait, event_query, stream_query; unknown
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration
    device        INTEGER,           -- device
    stream        BIGINT,            -- stream that is waited for, or that waits (stream_wait); NULL: none
    correlation   BIGINT,            -- of the API call
    wait_on_stream BIGINT,           -- stream of the event waited for
    wait_on_correlation BIGINT,      -- correlation of the call that recorded the event waited for
    event_id      BIGINT             -- event waited for
);
