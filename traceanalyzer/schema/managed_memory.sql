-- One row per event of managed (unified) memory: a move of pages between host and device, or a page fault.
-- Only Nsight Systems records them. Moves are copies in gpu_ops, too; page faults need options that are off by default.
CREATE TABLE managed_memory (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; of a move the copy's gpu_ops.op_id
    kind          VARCHAR NOT NULL,  -- move, gpu_fault or cpu_fault
    device        INTEGER,           -- devices.device; NULL: a fault of the CPU, or not recorded
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration; a fault of the CPU has none
    copy_kind     VARCHAR,           -- of a move: HtoD, DtoH or DtoD
    cause         VARCHAR,           -- of a move: page fault, speculative prefetch, user prefetch, eviction or access counters; NULL: unknown
    size_bytes    BIGINT,            -- of a move
    fault_count   BIGINT,            -- of faults of a GPU: how many it reported together
    function      VARCHAR            -- of a fault of the CPU: the function that touched the page
);
