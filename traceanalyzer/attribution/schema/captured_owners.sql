-- One row per operation of a replayed graph that a capture shows the launch of: on whose behalf it runs.
CREATE TABLE captured_owners (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    op_id         BIGINT NOT NULL,   -- the operation (gpu_ops.op_id)
    call_id       BIGINT,            -- innermost operator (captured_calls.call_id); NULL: none, or captures differ
    owner_id      INTEGER NOT NULL,  -- where it was captured: traces.trace_id or capture_files.capture_id
    at_id         BIGINT NOT NULL,   -- the launch there (capture_slices.slice_id, or host_slices.slice_id)
    python_id     BIGINT,            -- innermost Python frame there; NULL: none, or captures differ
    module_id     BIGINT,            -- innermost module there; NULL: none, or captures differ
    python        VARCHAR            -- innermost line of Python there: file(line): function
);
