-- One row per flow point: arrows that a viewer draws between slices.
CREATE TABLE flows (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; key of event_args
    flow_id       VARCHAR,           -- identity within category and name
    category      VARCHAR,           -- as written: ac2g, fwdbwd …
    name          VARCHAR,           -- as written
    phase         VARCHAR NOT NULL,  -- s start, t step, f end
    thread_id     INTEGER,           -- threads.thread_id
    start_ns      BIGINT NOT NULL,   -- when
    binds_enclosing BOOLEAN NOT NULL -- the end binds to the enclosing slice and not to the next
);
