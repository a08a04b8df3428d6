-- One row per piece of work on a device: kernel, copy, memset, or a whole graph replay where its nodes were not recorded.
-- Synchronisation records, annotations drawn on the device and profiler overhead are not GPU work and not included.
CREATE TABLE gpu_ops (
    trace_id      INTEGER NOT NULL,  -- traces.trace_id
    op_id         BIGINT NOT NULL,   -- unique in the trace (the event's position in the file); key of event_args
    device        INTEGER NOT NULL,  -- devices.device
    stream        BIGINT,            -- stream as written; 0 is a real stream
    context       BIGINT,            -- device context
    kind          VARCHAR NOT NULL,  -- kernel, memcpy, memset, graph, or op: an operation of a TPU
    is_comm       BOOLEAN NOT NULL,  -- a collective or point-to-point kernel: its name contains nccl, rccl, mccl, cncl or cross_device_reduce; of a TPU by its category
    name          VARCHAR,           -- as written (demangled)
    start_ns      BIGINT NOT NULL,   -- start
    dur_ns        BIGINT NOT NULL,   -- duration; 0 is a real length
    correlation   BIGINT,            -- correlation id of the launch call, within the trace
    external_id   BIGINT,            -- external id of the operator, as written
    launch_id     BIGINT,            -- runtime or driver call that launched it (host_slices.slice_id); NULL: not in the trace
    cpu_op_id     BIGINT,            -- operator that launched it (host_slices.slice_id)
    annotation_id BIGINT,            -- innermost annotation around the launch (host_slices.slice_id)
    python_id     BIGINT,            -- innermost Python frame around the launch (host_slices.slice_id)
    link_source   VARCHAR,           -- how cpu_op_id was found: nesting, external_id; time: from the line or step that surrounds the launch in time; flow: from the call whose work the launching thread does; NULL: not found
    graph_id      BIGINT,            -- CUDA graph; NULL: none, or not recorded
    graph_node_id BIGINT,            -- node of the CUDA graph; NULL: none, or not recorded
    size_bytes    BIGINT,            -- bytes of a copy or memset
    copy_kind     VARCHAR,           -- HtoD, DtoH, DtoD, PtoP, HtoH; NULL: not a copy, or unknown; op: it starts a copy, waits for one, or for an infeed
    src_kind      VARCHAR,           -- kind of a copy's source memory: pageable, pinned, device, managed, array, host (kind unknown)
    dst_kind      VARCHAR,           -- kind of the destination memory of a copy or memset
    grid_x        BIGINT,            -- launch grid, in blocks
    grid_y        BIGINT,            -- launch grid, in blocks
    grid_z        BIGINT,            -- launch grid, in blocks
    block_x       BIGINT,            -- thread block
    block_y       BIGINT,            -- thread block
    block_z       BIGINT,            -- thread block
    registers_per_thread INTEGER,    -- registers per thread
    shared_memory_bytes BIGINT,      -- static and dynamic shared memory per block
    blocks_per_sm DOUBLE,            -- grid blocks / SM count, as written
    warps_per_sm  DOUBLE,            -- grid warps / SM count, as written
    occupancy_percent DOUBLE,        -- estimated achieved occupancy, as written
    collective    VARCHAR,           -- name of the collective, where recorded: allreduce, _allgather_base …
    group_name    VARCHAR,           -- process group
    group_desc    VARCHAR,           -- process group description
    group_size    INTEGER,           -- number of ranks in the group
    group_ranks   VARCHAR,           -- ranks of the group as a JSON list; where the event has a shortened list, from the metadata
    comm_dtype    VARCHAR,           -- element type
    in_elements   BIGINT,            -- elements sent
    out_elements  BIGINT,            -- elements received
    comm_seq      BIGINT,            -- sequence number of the collective in its group, where recorded
    hlo_op        VARCHAR,           -- XLA: operation of the compiled program that the work is of; NULL: not recorded
    self_ns       BIGINT,            -- TPU: time of a loop or call in which none of the operations inside it runs; NULL: it contains none
    run_id        BIGINT             -- TPU: run of a program that it belongs to (async_slices.event_id); NULL: not recorded
);
