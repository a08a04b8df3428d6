-- GPU work of one process (or of all, where there is one): kernels, copies, memsets, whole graph replays.
-- A device that is not named is NULL, and found afterwards. Memory kinds and copy kinds have the numbers of nsys, which are not those of CUPTI.
WITH kernels AS (
    SELECT
        event_id, globalPid, deviceId, streamId, contextId, correlationId, launch_id, cpu_op_id,
        annotation_id,
        'kernel' AS kind,
        coalesce(demangledName, shortName) AS name_id,
        NULL::VARCHAR AS label, start, "end", graphId, graphNodeId, NULL::BIGINT AS size_bytes,
        NULL::VARCHAR AS copy_kind, NULL::BIGINT AS source_kind, NULL::BIGINT AS target_kind, gridX, gridY,
        gridZ, blockX, blockY, blockZ, registersPerThread,
        coalesce(staticSharedMemory + dynamicSharedMemory, staticSharedMemory, dynamicSharedMemory) AS shared_memory
    FROM kernel
),
copies AS (
    SELECT
        event_id, globalPid, deviceId, streamId, contextId, correlationId, launch_id, cpu_op_id,
        annotation_id,
        'memcpy' AS kind,
        CASE WHEN copyKind IN (11, 12, 13) THEN 'Memcpy UVM ' ELSE 'Memcpy ' END AS label,
        start, "end", graphNodeId, bytes AS size_bytes,
        CASE copyKind
            WHEN 1 THEN 'HtoD'
            WHEN 2 THEN 'DtoH'
            WHEN 3 THEN 'HtoA'
            WHEN 4 THEN 'AtoH'
            WHEN 5 THEN 'AtoA'
            WHEN 6 THEN 'AtoD'
            WHEN 7 THEN 'DtoA'
            WHEN 8 THEN 'DtoD'
            WHEN 9 THEN 'HtoH'
            WHEN 10 THEN 'PtoP'
            WHEN 11 THEN 'HtoD'
            WHEN 12 THEN 'DtoH'
            WHEN 13 THEN 'DtoD'
        END AS copy_kind,
        CASE WHEN copyKind IN (11, 12, 13) THEN migration_cause(migrationCause) END AS migration_cause,
        srcKind AS source_kind, dstKind AS target_kind
    FROM memcpy
),
sets AS (
    SELECT
        event_id, globalPid, deviceId, streamId, contextId, correlationId, launch_id, cpu_op_id,
        annotation_id,
        'memset' AS kind,
        'Memset' AS label,
        start, "end", graphNodeId, bytes AS size_bytes, memKind AS target_kind
    FROM memset
),
replays AS (
    SELECT
        event_id, globalPid, deviceId, streamId, contextId, correlationId, launch_id, cpu_op_id,
        annotation_id,
        'graph' AS kind,
        'CUDA graph ' || coalesce(graphId, graphExecId, 0) AS label,
        start, "end",
        coalesce(graphId, graphExecId) AS graphId
    FROM graph_trace
    ANTI JOIN graph_node_launches USING (globalPid, correlationId)
),
operations AS (
    SELECT * FROM kernels
    UNION ALL BY NAME
    SELECT * FROM copies
    UNION ALL BY NAME
    SELECT * FROM sets
    UNION ALL BY NAME
    SELECT * FROM replays
),
memory_kinds (id, name) AS (
    VALUES
        (0, 'pageable'),
        (1, 'pinned'),
        (2, 'device'),
        (3, 'array'),
        (4, 'managed'),
        (5, 'device'),
        (6, 'managed')
),
with_memory_kinds AS (
    SELECT operations.*, src.name AS src_kind, dst.name AS dst_kind
    FROM operations
    LEFT JOIN memory_kinds AS src ON src.id = source_kind
    LEFT JOIN memory_kinds AS dst ON dst.id = target_kind
    WHERE getvariable('scope') IS NULL
        OR globalPid = getvariable('scope')
)
SELECT
    event_id AS op_id,
    CASE WHEN deviceId >= 0 THEN deviceId::INTEGER END AS device,
    streamId AS stream, contextId AS context, kind,
    kind = 'kernel' AND coalesce(is_comm, false) AS is_comm,
    CASE kind
        WHEN 'kernel' THEN value
        WHEN 'memcpy' THEN
            label || coalesce(copy_kind, 'Unknown')
                || ' (' || coalesce(
                    migration_cause,
                    coalesce(upper(src_kind[1]) || src_kind[2:], 'Unknown')
                        || ' -> ' || coalesce(upper(dst_kind[1]) || dst_kind[2:], 'Unknown')
                ) || ')'
        WHEN 'memset' THEN label || ' (' || coalesce(upper(dst_kind[1]) || dst_kind[2:], 'Unknown') || ')'
        ELSE label
    END AS name,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns,
    CASE WHEN correlationId NOT IN (0, -1, 4294967295) THEN correlationId END AS correlation,
    NULL::BIGINT AS external_id, launch_id, cpu_op_id, annotation_id, NULL::BIGINT AS python_id,
    CASE WHEN cpu_op_id IS NOT NULL THEN 'nesting' END AS link_source,
    nullif(graphId, 0) AS graph_id,
    nullif(graphNodeId, 0) AS graph_node_id,
    size_bytes, copy_kind, src_kind, dst_kind, gridX AS grid_x, gridY AS grid_y, gridZ AS grid_z,
    blockX AS block_x, blockY AS block_y, blockZ AS block_z,
    registersPerThread::INTEGER AS registers_per_thread,
    shared_memory AS shared_memory_bytes, NULL::DOUBLE AS blocks_per_sm, NULL::DOUBLE AS warps_per_sm,
    NULL::DOUBLE AS occupancy_percent, NULL::VARCHAR AS collective, NULL::VARCHAR AS group_name,
    NULL::VARCHAR AS group_desc, NULL::INTEGER AS group_size, NULL::VARCHAR AS group_ranks,
    NULL::VARCHAR AS comm_dtype, NULL::BIGINT AS in_elements, NULL::BIGINT AS out_elements,
    NULL::BIGINT AS comm_seq, NULL::VARCHAR AS hlo_op, NULL::BIGINT AS self_ns, NULL::BIGINT AS run_id
FROM with_memory_kinds
LEFT JOIN strings ON id = name_id;
