-- One row per instant event, without allocator events (memory_events).
CREATE TABLE instants (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; key of event_args
    thread_id     INTEGER,           -- threads.thread_id
    category      VARCHAR,           -- as written
    name          VARCHAR,           -- as written
    scope         VARCHAR,           -- g global, p process, t thread
    start_ns      BIGINT NOT NULL    -- time of the event
);
