-- One row per trace and device with GPU work: the analysis window that shares and bounds are told of.
-- The window holds the kept steps, which are contiguous; without steps it is the span from the first GPU op's start to
-- the last one's end.
CREATE TABLE windows (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- devices.device
    start_ns      BIGINT NOT NULL,   -- start of the first kept step on the device
    end_ns        BIGINT NOT NULL,   -- end of the last kept step on the device
    window_ns     BIGINT NOT NULL,   -- end_ns - start_ns
    compute_ns    BIGINT NOT NULL,   -- time of the window in which compute ran
    busiest_stream_ns BIGINT NOT NULL, -- the same of the stream that computes most: no cause can win it, only faster kernels
    step_count    BIGINT NOT NULL,   -- kept steps; 0: no steps were found
    step_source   VARCHAR,           -- where steps come from: ProfilerStep, annotation, optimizer, launches (a sequence that recurs); NULL: none found
    step_mean_ns  BIGINT,            -- window_ns / step_count; NULL without steps
    step_spread   DOUBLE,            -- standard deviation of the kept steps' times over their mean; NULL below two steps
    launch_link_share DOUBLE,        -- share of compute time whose launch is in the trace, ops carried in from before the first launch left out; NULL without compute
    mode          VARCHAR NOT NULL,  -- training (autograd or an optimizer ran), inference (operators ran, no autograd) or unknown
    bound_abstains VARCHAR,          -- why bounds cannot be trusted here; NULL: they can
    run_abstains  VARCHAR,           -- why the ranks cannot be followed together, the same in every row; NULL: they can
    first_op_id   BIGINT,            -- op at whose start the window begins; NULL without steps
    opening_op_id BIGINT,            -- first op of any kind that the host launched in the first kept step; NULL without steps
    closing_op_id BIGINT,            -- first one that it launched after the last kept step; NULL: none
    leads_in      BOOLEAN NOT NULL,  -- steps ahead of the window lose their causes too; false: what lies ahead of it stays as it is
    reading_op_id BIGINT,            -- op at whose start a saving is read: the first after the window, or of its last step; NULL: read at the end of all work
    reading_scale DOUBLE NOT NULL,   -- factor from the saving read there to the whole window: above 1 where the trace ends with the window
    launch_latency_ns BIGINT NOT NULL -- from a launch call's end to its kernel's start on an idle device: median, measured where there are enough
);
