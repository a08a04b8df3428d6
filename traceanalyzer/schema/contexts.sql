-- One row per CUDA context of the traced process that the profiler lists, with or without GPU work.
-- Only Nsight Systems lists them, without a time: created_ns comes from the profiler's own work while one is created.
CREATE TABLE contexts (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    context       BIGINT NOT NULL,   -- gpu_ops.context, unique in the trace
    device        INTEGER,           -- devices.device
    pid           VARCHAR,           -- process
    created_ns    BIGINT             -- an instant while it was created; NULL: before the recording, or one of several
);
