-- One row per CPU sample with its call chain: what a thread executed at an instant.
CREATE TABLE cpu_samples (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace
    thread_id     INTEGER,           -- threads.thread_id; NULL: nothing else of the thread was recorded
    start_ns      BIGINT NOT NULL,   -- time of the sample
    function      VARCHAR,           -- innermost function, as written
    module        VARCHAR,           -- library or program that holds it
    own_function  VARCHAR,           -- innermost function that is not of the system, the CUDA driver or a runtime; NULL: none
    is_kernel     BOOLEAN NOT NULL,  -- the innermost function is of the operating system's kernel
    stack         VARCHAR            -- functions of the call chain, the outermost first, joined by semicolons
);
