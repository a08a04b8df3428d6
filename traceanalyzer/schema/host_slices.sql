-- One row per interval on a host thread: operators, annotations, Python frames, runtime and driver calls, OS calls.
-- Ordered by thread, start, longest first, position in the file. The parent of a slice is the innermost slice of its
-- thread that is open when it starts.
CREATE TABLE host_slices (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    slice_id      BIGINT NOT NULL,   -- unique in the trace (the event's position in the file); key of event_args
    thread_id     INTEGER NOT NULL,  -- threads.thread_id
    category      VARCHAR NOT NULL,  -- cpu_op, annotation, python, runtime, driver, overhead, os, or other
    raw_category  VARCHAR,           -- the category as written; step_num: a step that XLA's profiler was told of, with its number behind the name
    name          VARCHAR,           -- as written
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration; 0 is a real length
    depth         INTEGER NOT NULL,  -- number of ancestors
    parent_id     BIGINT,            -- innermost slice of the thread that is open when it starts; NULL at depth 0
    op_id         BIGINT,            -- innermost enclosing cpu_op (slice_id), never the slice itself
    annotation_id BIGINT,            -- innermost enclosing annotation (slice_id), never the slice itself
    python_id     BIGINT,            -- innermost enclosing python slice (slice_id), never the slice itself
    module_id     BIGINT,            -- innermost enclosing python slice of an nn.Module (slice_id), never the slice itself
    stack_id      BIGINT,            -- equal for slices whose names and those of all their ancestors are equal, in every trace
    correlation   BIGINT,            -- of runtime and driver calls: connects the call with the GPU operations that it launched, within the trace
    external_id   BIGINT,            -- connects runtime calls and GPU operations with the operator
    sequence      BIGINT,            -- autograd sequence number: equal for a forward operator and its backward operator
    forward_thread BIGINT,           -- of backward operators: autograd id of the thread on which the forward operator ran
    input_shapes  VARCHAR            -- of operators: shapes of the inputs as written, a JSON list; NULL: not recorded
);
