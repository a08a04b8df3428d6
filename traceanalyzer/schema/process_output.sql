-- One row per output stream of a profiled process that the profiler kept: what the program printed.
CREATE TABLE process_output (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace
    pid           VARCHAR,           -- process
    file          VARCHAR,           -- file that the stream went to, as written; it names the stream
    text          VARCHAR            -- the last 16,000 characters of the stream
);
