-- One row per trace, device and class of kernels: what the window would lose at most if they all ran twice as fast.
CREATE TABLE op_bounds (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    class         VARCHAR NOT NULL,  -- of kernels, as in the metric kernel_class
    op_count      BIGINT NOT NULL,   -- kernels of the class on the device
    dur_sum_ns    BIGINT NOT NULL,   -- sum of their durations
    bound_ns      BIGINT,            -- what the device's window would lose at most; NULL: windows.bound_abstains
    run_ns        BIGINT             -- what the run's would if they were faster on all ranks; NULL: ranks cannot be scanned together
);
