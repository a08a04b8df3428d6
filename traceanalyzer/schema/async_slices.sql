-- One row per interval that is on no thread: asynchronous events, annotations that the profiler draws on the device,
-- the profiler's own spans, and synchronisation records shown as rows.
CREATE TABLE async_slices (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace (position of the begin event); key of event_args
    pid           VARCHAR,           -- process as written
    tid           VARCHAR,           -- thread or stream as written
    category      VARCHAR,           -- gpu_annotation, span, async, derived (repeats other work), memory, or other
    raw_category  VARCHAR,           -- the category as written
    name          VARCHAR,           -- as written
    async_id      VARCHAR,           -- id that connects begin and end
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT             -- duration; of one that never ended, until the recording ended
);
