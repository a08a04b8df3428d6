-- One row per host thread (or other track), exactly as the trace names it: threads are never merged.
CREATE TABLE threads (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    thread_id     INTEGER NOT NULL,  -- number of the pair (pid, tid), counted without gaps, unique in the trace
    pid           VARCHAR,           -- process as written
    tid           VARCHAR,           -- thread as written
    process_name  VARCHAR,           -- display name
    thread_name   VARCHAR,           -- display name
    twin_id       INTEGER            -- XLA: thread_id of the line that shows what the same thread does around these calls, which lie on a line of their own, or of the thread in whose steps this one only launches; NULL: none
);
