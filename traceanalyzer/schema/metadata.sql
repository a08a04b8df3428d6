-- One row per top-level key of the file other than the events, and per metadata event that no other table holds.
CREATE TABLE metadata (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    key           VARCHAR NOT NULL,  -- as written
    value         VARCHAR            -- as JSON text; secrets are redacted when shown
);
