-- One row per accelerator that the trace describes or that has work in it.
CREATE TABLE devices (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    device        INTEGER NOT NULL,  -- ordinal, as GPU events name it
    name          VARCHAR,           -- product name
    vendor        VARCHAR,           -- nvidia, amd, intel, mtia, google, ascend, moore_threads, cambricon; NULL: unknown
    sm_count      INTEGER,           -- streaming multiprocessors or compute units
    memory_bytes  BIGINT,            -- total device memory
    compute_major INTEGER,           -- compute capability
    compute_minor INTEGER,           -- compute capability
    warp_size     INTEGER,           -- threads per warp or wavefront
    max_threads_per_sm INTEGER,      -- most resident threads per SM
    is_integrated BOOLEAN,           -- it shares the host's memory, as on Jetson boards; NULL: unknown
    gpu           VARCHAR            -- which GPU it is: its UUID, else its bus and host; equal in every recording of it. NULL: not recorded
);
