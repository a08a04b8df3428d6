-- GPU work: kernels, copies, memsets. Arguments are read as texts, as those of host slices are. Planning this takes
-- longer than most chunks' GPU work: so it is asked once, of all chunks.
WITH parsed AS (
    SELECT
        *,
        category AS kind,
        from_json(
            args,
            '{"device": "VARCHAR", "stream": "VARCHAR", "context": "VARCHAR", "correlation": "VARCHAR",
              "External id": "VARCHAR", "graph id": "VARCHAR", "graph node id": "VARCHAR", "bytes": "VARCHAR",
              "grid": ["BIGINT"], "block": ["BIGINT"], "grid dim": ["BIGINT"], "block dim": ["BIGINT"],
              "registers per thread": "VARCHAR", "shared memory": "VARCHAR", "blocks per SM": "VARCHAR",
              "warps per SM": "VARCHAR", "est. achieved occupancy %": "VARCHAR", "Collective name": "VARCHAR",
              "Process Group Name": "VARCHAR", "Process Group ID": "VARCHAR", "Process Group Description": "VARCHAR",
              "Group size": "VARCHAR", "Process Group Ranks": "VARCHAR", "dtype": "VARCHAR",
              "In msg nelems": "VARCHAR", "Out msg nelems": "VARCHAR", "Seq": "VARCHAR", "correlation_id": "VARCHAR", "hlo_op": "VARCHAR",
              "cuda_graph_id": "VARCHAR", "cuda_graph_node_id": "VARCHAR", "kernel_details": "VARCHAR",
              "memcpy_details": "VARCHAR", "Memset_details": "VARCHAR",
              "sycl queue": "VARCHAR", "dev-id": "VARCHAR", "gpu-id": "VARCHAR", "stream-id": "VARCHAR", "queue-id": "VARCHAR",
              "Index": "VARCHAR", "corr_id": "VARCHAR", "stream_ID": "VARCHAR", "original_stream": "VARCHAR", "agent": "VARCHAR",
              "src_agent": "VARCHAR", "dst_agent": "VARCHAR", "copy_bytes": "VARCHAR",
              "copy kind": "VARCHAR", "src kind": "VARCHAR", "dst kind": "VARCHAR", "memory kind": "VARCHAR",
              "grid_size": "VARCHAR", "workgroup_size": "VARCHAR", "tasktopo": "VARCHAR", "tasktopo node": "VARCHAR"}'
        ) AS known
    FROM read_parquet($gpu_events)
),
-- Each stage has names for what the next one uses more than once: a name in its own stage is planned anew at each use.
texts AS (
    SELECT
        * REPLACE (
            CASE
                WHEN known.corr_id IS NULL THEN kind
                -- Omnitrace says beside the name what it is.
                WHEN args ->> '$.op' = 'COPY' THEN if(contains(lower(name), 'fill'), 'memset', 'memcpy')
                ELSE hip_kind(name, kind)
            END AS kind,
            -- PyTorch's recorder of 2026 (cuspy) says beside the name what the names of Kineto hold.
            CASE
                WHEN name = 'Memcpy' AND is_copy_kind(known."copy kind")
                THEN copy_name(known."copy kind", known."src kind", known."dst kind")
                WHEN name = 'Memset' AND is_memory_word(known."memory kind") THEN memset_name(known."memory kind")
                ELSE name
            END AS name
        ),
        -- rocprofv3 names both ends of a copy.
        coalesce(known.agent, if(contains(name, 'TO_DEVICE'), known.dst_agent, known.src_agent)) AS agent,
        -- XLA: 'regs:32 static_shared:0 dynamic_shared:0 grid:64,1,1 block:128,1,1' or 'kind_src:pageable size:64'.
        coalesce(known.kernel_details, known.memcpy_details, known.Memset_details) AS details,
        sdk_size(known.grid_size) AS sdk_items,
        sdk_size(known.workgroup_size) AS sdk_block,
        coalesce(known."External id", args ->> '$."external id"') AS external_text,
        coalesce(known.device, known."dev-id", known."gpu-id") AS device_alone,
        coalesce(device_alone, agent) AS device_text,
        -- PyTorch may draw the work of graphs on lanes of names that its program gave, where it overlaps.
        coalesce(
            known.original_stream, known.stream, known."stream-id", known."queue-id", known."stream_ID",
            CASE WHEN known.corr_id IS NOT NULL THEN args ->> '$.stream_id' END
        ) AS stream_text,
        -- rocprof: the number of the call that launched the work of HIP.
        coalesce(
            known.correlation, known.correlation_id,
            CASE WHEN known."dev-id" IS NOT NULL THEN known."Index" END,
            known.corr_id
        ) AS correlation_text,
        -- 0 is no graph: Kineto writes both ids on all GPU work since 2026, XLA does so for longer. tasktopo: Cambricon's.
        coalesce(known."graph id", known.cuda_graph_id, known.tasktopo) AS graph_text,
        coalesce(known."graph node id", known.cuda_graph_node_id, known."tasktopo node") AS graph_node_text
    FROM parsed
),
numbers AS (
    SELECT
        *,
        coalesce(
            known.grid, known."grid dim",
            CASE WHEN contains(args, '"grid') THEN sdk_sides(coalesce(args ->> '$.grid', args ->> '$."grid dim"')) END,
            sides_of(regexp_extract(details, '\bgrid:([\d,]+)', 1)),
            sdk_groups(sdk_items, sdk_block)
        ) AS written_grid,
        coalesce(
            known.block, known."block dim",
            CASE WHEN contains(args, '"block') THEN sdk_sides(coalesce(args ->> '$.block', args ->> '$."block dim"')) END,
            sides_of(regexp_extract(details, '\bblock:([\d,]+)', 1)),
            sdk_block
        ) AS written_block,
        if(device_alone IS NULL, agent_number(agent), TRY_CAST(device_alone AS INTEGER)) AS known_device,
        TRY_CAST(stream_text AS BIGINT) AS known_stream,
        TRY_CAST(known.context AS BIGINT) AS context,
        TRY_CAST(known."sycl queue" AS BIGINT) AS sycl_queue,
        TRY_CAST(external_text AS BIGINT) AS external_id,
        TRY_CAST(correlation_text AS BIGINT) AS recorded_correlation,
        TRY_CAST(graph_text AS BIGINT) AS recorded_graph_id,
        TRY_CAST(graph_node_text AS BIGINT) AS recorded_graph_node_id,
        coalesce(
            known.bytes, known.copy_bytes, nullif(regexp_extract(details, '\b(?:size|num_bytes):(\d+)', 1), '')
        ) AS bytes_text,
        coalesce(known."registers per thread", nullif(regexp_extract(details, '\bregs:(\d+)', 1), ''))
            AS registers_text,
        finite(known."blocks per SM") AS blocks_per_sm,
        finite(known."warps per SM") AS warps_per_sm,
        finite(known."est. achieved occupancy %") AS occupancy_percent,
        at_most(TRY_CAST(known."Group size" AS INTEGER), 1048576) AS group_size,
        at_most(TRY_CAST(known."In msg nelems" AS BIGINT), 274877906944) AS in_elements,
        at_most(TRY_CAST(known."Out msg nelems" AS BIGINT), 274877906944) AS out_elements,
        at_most(TRY_CAST(known."shared memory" AS BIGINT), 2147483647) AS shared_memory_bytes,
        TRY_CAST(known.Seq AS BIGINT) AS comm_seq,
        is_comm_work(kind, name) AS is_comm
    FROM texts
),
typed AS (
    SELECT
        *,
        launchable(written_grid) AS grid,
        launchable(written_block) AS block,
        known_id(recorded_correlation) AS correlation,
        known_id(recorded_graph_id) AS graph_id,
        memory_size(TRY_CAST(bytes_text AS BIGINT)) AS size_bytes,
        -- No device has more: XLA's profiler of ROCm never set them.
        CASE
            WHEN known."registers per thread" IS NOT NULL THEN TRY_CAST(registers_text AS INTEGER)
            WHEN TRY_CAST(registers_text AS BIGINT) <= 1024 THEN CAST(registers_text AS INTEGER)
        END AS registers_per_thread
    FROM numbers
)
SELECT
    event_id,
    -- Where the process stands for the device, its number is small. ONNX Runtime writes -1, or its own process.
    coalesce(
        known_device,
        CASE
            WHEN device_text IS NOT NULL THEN NULL
            WHEN known.corr_id IS NULL AND TRY_CAST(pid AS INTEGER) BETWEEN 0 AND 1023 THEN CAST(pid AS INTEGER)
            WHEN TRY_CAST(pid AS BIGINT) IS NOT NULL THEN 0
        END
    ) AS device,
    device_text IS NOT NULL AND known_device IS NULL AS is_device_lost,
    CASE WHEN details IS NOT NULL THEN pid END AS track_pid,
    coalesce(known_stream, TRY_CAST(regexp_extract(tid, '\d+') AS BIGINT)) AS stream,
    context, kind, is_comm, name, start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    correlation, external_id, graph_id,
    CASE WHEN graph_id IS NOT NULL THEN recorded_graph_node_id END AS graph_node_id,
    size_bytes,
    copy_direction(kind, name, agent_number(known.src_agent) <> agent_number(known.dst_agent)) AS copy_kind,
    coalesce(
        source_kind(kind, name), CASE WHEN kind = 'memcpy' THEN nullif(regexp_extract(details, '\bkind_src:(\w+)', 1), '') END
    ) AS src_kind,
    coalesce(
        target_kind(kind, name), CASE WHEN kind = 'memcpy' THEN nullif(regexp_extract(details, '\bkind_dst:(\w+)', 1), '') END
    ) AS dst_kind,
    grid[1] AS grid_x,
    grid[2] AS grid_y,
    grid[3] AS grid_z,
    block[1] AS block_x,
    block[2] AS block_y,
    block[3] AS block_z,
    registers_per_thread, shared_memory_bytes, blocks_per_sm, warps_per_sm, occupancy_percent,
    sycl_queue IS NOT NULL AS is_sycl,
    known."Collective name" AS collective,
    coalesce(known."Process Group Name", known."Process Group ID") AS group_name,
    known."Process Group Description" AS group_desc, group_size, known."Process Group Ranks" AS group_ranks,
    known.dtype AS comm_dtype, in_elements, out_elements, comm_seq, known.hlo_op AS hlo_op,
    is_lost(device_alone, known_device) + is_lost(known.agent, agent_number(known.agent))
        + is_lost(known.src_agent, agent_number(known.src_agent))
        + is_lost(known.dst_agent, agent_number(known.dst_agent))
        + is_lost(known.grid_size, sdk_items) + is_lost(known.workgroup_size, sdk_block)
        + is_lost(stream_text, known_stream) + is_lost(known.context, context)
        + is_lost(known."copy kind", nullif(is_copy_kind(known."copy kind"), FALSE))
        + is_lost(known."src kind", nullif(is_memory_word(known."src kind"), FALSE))
        + is_lost(known."dst kind", nullif(is_memory_word(known."dst kind"), FALSE))
        + is_lost(known."memory kind", nullif(is_memory_word(known."memory kind"), FALSE))
        + is_id_lost(correlation_text, recorded_correlation) + is_id_lost(external_text, external_id)
        + is_lost(known."sycl queue", sycl_queue)
        + is_id_lost(graph_text, recorded_graph_id) + is_id_lost(graph_node_text, recorded_graph_node_id)
        + is_lost(details, nullif(regexp_matches(details, '(^|\s)\w+:\S'), FALSE))
        + is_lost(bytes_text, size_bytes) + is_lost(registers_text, TRY_CAST(registers_text AS BIGINT))
        + is_lost(known."shared memory", shared_memory_bytes) + is_lost(known."blocks per SM", blocks_per_sm)
        + is_lost(known."warps per SM", warps_per_sm)
        + is_lost(known."est. achieved occupancy %", occupancy_percent) + is_lost(known."Group size", group_size)
        + is_lost(known."In msg nelems", in_elements) + is_lost(known."Out msg nelems", out_elements)
        + is_lost(known.Seq, comm_seq) + is_list_lost(args, 'grid', ['$.grid', '$."grid dim"'], grid)
        + is_list_lost(args, 'block', ['$.block', '$."block dim"'], block) AS lost_values
FROM typed;
