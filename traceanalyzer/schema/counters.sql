-- One row per sample of a counter series.
CREATE TABLE counters (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; key of event_args
    pid           VARCHAR,           -- process as written
    name          VARCHAR,           -- counter as written, with its string id appended
    series        VARCHAR,           -- argument that holds the value; may be empty
    start_ns      BIGINT NOT NULL,   -- time of the sample
    value         DOUBLE             -- value of the sample
);
