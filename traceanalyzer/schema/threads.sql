-- One row per host thread (or other track) as written: never folded, never defaulted to another.
CREATE TABLE threads (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    thread_id     INTEGER NOT NULL,  -- dense number of the pair (pid, tid), unique in the trace
    pid           VARCHAR,           -- process as written
    tid           VARCHAR,           -- thread as written
    process_name  VARCHAR,           -- display name
    thread_name   VARCHAR            -- display name
);
