-- One row per trace and device with GPU work: the analysis window, which all shares and bounds refer to.
-- The window consists of the kept steps, which are contiguous; without steps it is the span from the first GPU op's start
-- to the last one's end. Where the trace's first step is kept, and no step follows the kept ones, the window begins where
-- the host begins that step, or where the device is done with what was queued before: the time ahead of the first GPU op
-- belongs to the step. Where another step follows, the last kept step ends with the time before its first kernel.
CREATE TABLE windows (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    start_ns      BIGINT NOT NULL,   -- start of the first kept step on the device
    end_ns        BIGINT NOT NULL,   -- end of the last kept step on the device
    window_ns     BIGINT NOT NULL,   -- end_ns - start_ns
    compute_ns    BIGINT NOT NULL,   -- time of the window in which compute ran
    busiest_stream_ns BIGINT NOT NULL, -- the same for the stream that computes most: removing causes cannot save it, only faster kernels can
    full_device_ns BIGINT NOT NULL,  -- time for which the blocks of its kernels need the whole device, in whatever order: resident blocks at a time; 0: grids or the number of SMs not known
    h2d_ns        BIGINT NOT NULL,   -- time of the window in which copies to the device ran
    d2h_ns        BIGINT NOT NULL,   -- time of the window in which copies to the host ran
    step_count    BIGINT NOT NULL,   -- kept steps; 0: no steps were found
    step_source   VARCHAR,           -- source of the steps: ProfilerStep, annotation, optimizer, launches (a recurring sequence), device (a line of steps of the device itself, in a profile of XLA), programs (runs of the program with most time, on a TPU); NULL: no steps found
    step_mean_ns  BIGINT,            -- window_ns / step_count; NULL without steps
    step_spread   DOUBLE,            -- standard deviation of the kept steps' times over their mean; NULL below two steps
    launch_link_share DOUBLE,        -- share of compute time whose launch is in the trace, without ops queued before the first launch; NULL without compute
    mode          VARCHAR NOT NULL,  -- training (autograd, an optimizer or kernels of gradients ran), inference (operators ran, no autograd) or unknown
    bound_abstains VARCHAR,          -- why bounds cannot be trusted on this device; NULL: they can
    run_abstains  VARCHAR,           -- why the ranks cannot be followed together, the same in every row; NULL: they can
    first_op_id   BIGINT,            -- op at whose start the window begins; NULL without steps, or where it begins ahead of its first op
    opening_op_id BIGINT,            -- first op of any kind that the host launched in the first kept step; NULL without steps
    closing_op_id BIGINT,            -- first op that the host launched after the last kept step; NULL: none
    runs_in      BOOLEAN NOT NULL,  -- causes are removed from the steps before the window too; false: everything before the window stays as it is
    measure_at_op_id BIGINT,            -- op at whose start savings are measured: the first after the window, or of its last step; NULL: at the end of all work
    measure_scale DOUBLE NOT NULL,   -- factor from the saving measured there to the whole window: above 1 where the trace ends with the window
    launch_latency_ns BIGINT NOT NULL -- from a launch call's end to its kernel's start on an idle device: median, measured where there are enough
);
