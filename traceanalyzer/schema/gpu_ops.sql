-- One row per piece of work on a device: kernel, copy, memset, or a whole graph replay where its nodes were not recorded.
-- Synchronisation records, annotations drawn on the device and profiler overhead are no GPU work and are not here.
CREATE TABLE gpu_ops (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    op_id         BIGINT NOT NULL,   -- unique in the trace (the event's position in the file); key of event_args
    device        INTEGER NOT NULL,  -- devices.device
    stream        BIGINT,            -- stream as written; 0 is a real stream
    context       BIGINT,            -- device context
    kind          VARCHAR NOT NULL,  -- kernel, memcpy, memset or graph
    is_comm       BOOLEAN NOT NULL,  -- a collective or point-to-point kernel: its name holds nccl, rccl or cross_device_reduce
    name          VARCHAR,           -- as written (demangled)
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration; 0 is a real length
    correlation   BIGINT,            -- of the launching call, within the trace
    external_id   BIGINT,            -- of the operator, as written
    launch_id     BIGINT,            -- launching runtime or driver call (host_slices.slice_id); NULL: not in the trace
    cpu_op_id     BIGINT,            -- operator that launched it (host_slices.slice_id)
    annotation_id BIGINT,            -- innermost annotation around the launch (host_slices.slice_id)
    python_id     BIGINT,            -- innermost Python frame around the launch (host_slices.slice_id)
    link_source   VARCHAR,           -- how cpu_op_id was found: nesting, external_id; NULL: not found
    graph_id      BIGINT,            -- CUDA graph, where recorded
    graph_node_id BIGINT,            -- node in it, where recorded
    size_bytes    BIGINT,            -- of copies and memsets
    copy_kind     VARCHAR,           -- HtoD, DtoH, DtoD, PtoP, HtoH; NULL: no copy or unknown
    src_kind      VARCHAR,           -- memory kind copied from: pageable, pinned, device, managed, array, host (kind unknown)
    dst_kind      VARCHAR,           -- memory kind copied to, or set
    grid_x        BIGINT,            -- launch grid
    grid_y        BIGINT,            -- launch grid
    grid_z        BIGINT,            -- launch grid
    block_x       BIGINT,            -- thread block
    block_y       BIGINT,            -- thread block
    block_z       BIGINT,            -- thread block
    registers_per_thread INTEGER,    -- registers
    shared_memory_bytes BIGINT,      -- static and dynamic shared memory of a block
    blocks_per_sm DOUBLE,            -- grid blocks / SM count, as written
    warps_per_sm  DOUBLE,            -- grid warps / SM count, as written
    occupancy_percent DOUBLE,        -- estimated achieved occupancy, as written
    collective    VARCHAR,           -- name of the collective: allreduce, _allgather_base …, where recorded
    group_name    VARCHAR,           -- process group
    group_desc    VARCHAR,           -- process group description
    group_size    INTEGER,           -- ranks of the group
    group_ranks   VARCHAR,           -- ranks of the group as a JSON list, restored from the metadata where the event has it shortened
    comm_dtype    VARCHAR,           -- element type
    in_elements   BIGINT,            -- elements sent
    out_elements  BIGINT,            -- elements received
    comm_seq      BIGINT             -- sequence number of the collective in its group, where recorded
);
