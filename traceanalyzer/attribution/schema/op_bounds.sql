-- One row per trace, device and class of kernels: the most by which the window gets shorter if all of them run twice as
-- fast.
CREATE TABLE op_bounds (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    class         VARCHAR NOT NULL,  -- class of kernels, as in the metric kernel_class
    op_count      BIGINT NOT NULL,   -- kernels of the class on the device
    dur_sum_ns    BIGINT NOT NULL,   -- sum of their durations
    bound_ns      BIGINT,            -- upper bound of the saving in the device's window; NULL: windows.bound_abstains
    run_ns        BIGINT             -- upper bound in the run's window if they were faster on all ranks; NULL: ranks cannot be scanned together
);
