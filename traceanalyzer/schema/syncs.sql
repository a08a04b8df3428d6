-- One row per recorded synchronisation: a host or a stream waits for a stream, an event or the device. Not GPU work.
CREATE TABLE syncs (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    sync_id       BIGINT NOT NULL,   -- unique in the trace; key of event_args
    kind          VARCHAR NOT NULL,  -- the host waits: stream, event, device; the host does not wait: stream_wait, event_query, stream_query; unknown
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration
    device        INTEGER,           -- device
    stream        BIGINT,            -- stream that the host waits for, or that waits (stream_wait); NULL: none
    correlation   BIGINT,            -- correlation id of the API call
    wait_on_stream BIGINT,           -- stream of the event that is waited for
    wait_on_correlation BIGINT,      -- correlation id of the call that recorded that event
    event_id      BIGINT             -- event that is waited for
);
