-- One row per memory event: of the framework's allocator, or, in exports of Nsight Systems, of the driver.
CREATE TABLE memory_events (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    event_id      BIGINT NOT NULL,   -- unique in the trace; key of event_args
    thread_id     INTEGER,           -- threads.thread_id
    start_ns      BIGINT NOT NULL,   -- time of the event
    kind          VARCHAR NOT NULL,  -- alloc, free or oom
    device_type   INTEGER,           -- c10::DeviceType: 0 CPU, 1 CUDA, 6 on ROCm
    device        INTEGER,           -- device; -1 for the CPU, NULL where it is not recorded
    address       BIGINT,            -- address
    size_bytes    BIGINT,            -- allocated (positive) or freed (negative)
    allocated_bytes BIGINT,          -- total in use after the event
    reserved_bytes BIGINT            -- total that the allocator holds after the event
);
