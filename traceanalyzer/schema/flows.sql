-- One row per point of a flow: viewers draw flows as arrows between slices.
CREATE TABLE flows (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; key of event_args
    flow_id       VARCHAR,           -- id of the flow, within its category and name
    category      VARCHAR,           -- as written: ac2g, fwdbwd …
    name          VARCHAR,           -- as written
    phase         VARCHAR NOT NULL,  -- s start, t step, f end
    thread_id     INTEGER,           -- threads.thread_id
    start_ns      BIGINT NOT NULL,   -- time of the point
    binds_enclosing BOOLEAN NOT NULL -- an end point that binds to the enclosing slice, not to the next one
);
