-- One row per top-level key of the file except the events, and per metadata event that is in no other table.
CREATE TABLE metadata (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    key           VARCHAR NOT NULL,  -- as written
    value         VARCHAR            -- as JSON text; commands redact secrets when they print it
);
