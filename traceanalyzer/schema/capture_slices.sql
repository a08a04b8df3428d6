-- One row per interval on a host thread of a capture, as in host_slices.
CREATE TABLE capture_slices (
    capture_id    INTEGER NOT NULL,  -- capture_files.capture_id
    slice_id      BIGINT NOT NULL,   -- unique in the capture
    thread_id     INTEGER NOT NULL,  -- thread
    category      VARCHAR NOT NULL,  -- as in host_slices
    name          VARCHAR,           -- as written
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration; 0 is a real length
    parent_id     BIGINT,            -- innermost slice of the thread that is open when it starts; NULL: none
    op_id         BIGINT,            -- innermost enclosing cpu_op (slice_id), never the slice itself
    annotation_id BIGINT,            -- innermost enclosing annotation (slice_id), never the slice itself
    python_id     BIGINT,            -- innermost enclosing python slice (slice_id), never the slice itself
    module_id     BIGINT,            -- innermost enclosing python slice of an nn.Module (slice_id), never the slice itself
    input_shapes  VARCHAR            -- of operators: shapes of the inputs as written, a JSON list; NULL: not recorded
);
