-- One row per event with arguments: everything that the profiler wrote about it, including what has no column.
CREATE TABLE event_args (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- the event: slice_id, op_id, sync_id …
    args          VARCHAR            -- JSON object as text
);
