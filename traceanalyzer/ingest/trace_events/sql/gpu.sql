-- GPU work: kernels, copies, memsets.
WITH parsed AS (
    SELECT
        *,
        category AS kind,
        from_json(
            args,
            '{"device": "INTEGER", "stream": "BIGINT", "context": "BIGINT", "correlation": "BIGINT",
              "External id": "BIGINT", "graph id": "BIGINT", "graph node id": "BIGINT", "bytes": "BIGINT",
              "grid": ["BIGINT"], "block": ["BIGINT"], "grid dim": ["BIGINT"], "block dim": ["BIGINT"],
              "registers per thread": "INTEGER", "shared memory": "BIGINT", "blocks per SM": "DOUBLE",
              "warps per SM": "DOUBLE", "est. achieved occupancy %": "DOUBLE", "Collective name": "VARCHAR",
              "Process Group Name": "VARCHAR", "Process Group ID": "VARCHAR", "Process Group Description": "VARCHAR",
              "Group size": "INTEGER", "Process Group Ranks": "VARCHAR", "dtype": "VARCHAR",
              "In msg nelems": "BIGINT", "Out msg nelems": "BIGINT", "Seq": "BIGINT"}'
        ) AS known
    FROM chunk
    WHERE class = 'gpu' AND loss IS NULL
)
SELECT
    $base + position AS event_id,
    coalesce(known.device, TRY_CAST(pid AS INTEGER)) AS device,
    coalesce(known.stream, TRY_CAST(regexp_extract(tid, '\d+') AS BIGINT)) AS stream,
    known.context AS context,
    kind,
    kind = 'kernel' AND regexp_matches(coalesce(name, ''), 'nccl|rccl|cross_device_reduce', 'i') AS is_comm,
    name,
    start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    known.correlation AS correlation,
    coalesce(known."External id", TRY_CAST(args ->> '$."external id"' AS BIGINT)) AS external_id,
    known."graph id" AS graph_id,
    known."graph node id" AS graph_node_id,
    known.bytes AS size_bytes,
    CASE
        WHEN kind <> 'memcpy' THEN NULL
        WHEN regexp_matches(name, 'HtoD|HostToDevice') THEN 'HtoD'
        WHEN regexp_matches(name, 'DtoH|DeviceToHost') THEN 'DtoH'
        WHEN regexp_matches(name, 'DtoD|DeviceToDevice') THEN 'DtoD'
        WHEN regexp_matches(name, 'PtoP|PeerToPeer') THEN 'PtoP'
        WHEN regexp_matches(name, 'HtoH|HostToHost') THEN 'HtoH'
    END AS copy_kind,
    CASE
        WHEN kind = 'memcpy' THEN nullif(lower(regexp_extract(name, '\((\w+) ?-> ?(\w+)\)', 1)), '')
    END AS src_kind,
    CASE kind
        WHEN 'memcpy' THEN nullif(lower(regexp_extract(name, '\((\w+) ?-> ?(\w+)\)', 2)), '')
        WHEN 'memset' THEN nullif(lower(regexp_extract(name, '\((\w+)\)', 1)), '')
    END AS dst_kind,
    coalesce(known.grid, known."grid dim")[1] AS grid_x,
    coalesce(known.grid, known."grid dim")[2] AS grid_y,
    coalesce(known.grid, known."grid dim")[3] AS grid_z,
    coalesce(known.block, known."block dim")[1] AS block_x,
    coalesce(known.block, known."block dim")[2] AS block_y,
    coalesce(known.block, known."block dim")[3] AS block_z,
    known."registers per thread" AS registers_per_thread,
    known."shared memory" AS shared_memory_bytes,
    known."blocks per SM" AS blocks_per_sm,
    known."warps per SM" AS warps_per_sm,
    known."est. achieved occupancy %" AS occupancy_percent,
    known."Collective name" AS collective,
    coalesce(known."Process Group Name", known."Process Group ID") AS group_name,
    known."Process Group Description" AS group_desc,
    known."Group size" AS group_size,
    known."Process Group Ranks" AS group_ranks,
    known.dtype AS comm_dtype,
    known."In msg nelems" AS in_elements,
    known."Out msg nelems" AS out_elements,
    known.Seq AS comm_seq
FROM parsed;
