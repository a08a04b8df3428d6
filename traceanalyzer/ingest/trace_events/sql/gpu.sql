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
),
launches AS (
    SELECT
        *,
        launchable(coalesce(known.grid, known."grid dim")) AS grid,
        launchable(coalesce(known.block, known."block dim")) AS block,
        at_most(known.bytes, 17592186044416) AS size_bytes,
        at_most(known."shared memory", 2147483647) AS shared_memory_bytes,
        at_most(known."Group size", 1048576) AS group_size,
        at_most(known."In msg nelems", 274877906944) AS in_elements,
        at_most(known."Out msg nelems", 274877906944) AS out_elements,
        kind = 'kernel' AND regexp_matches(coalesce(name, ''), 'nccl|rccl|cross_device_reduce', 'i') AS is_comm
    FROM parsed
)
SELECT
    $base + position AS event_id,
    coalesce(known.device, TRY_CAST(pid AS INTEGER)) AS device,
    coalesce(known.stream, TRY_CAST(regexp_extract(tid, '\d+') AS BIGINT)) AS stream,
    known.context AS context,
    kind,
    is_comm,
    name,
    start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    known.correlation AS correlation,
    coalesce(known."External id", TRY_CAST(args ->> '$."external id"' AS BIGINT)) AS external_id,
    known."graph id" AS graph_id,
    known."graph node id" AS graph_node_id,
    size_bytes,
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
    grid[1] AS grid_x,
    grid[2] AS grid_y,
    grid[3] AS grid_z,
    block[1] AS block_x,
    block[2] AS block_y,
    block[3] AS block_z,
    known."registers per thread" AS registers_per_thread,
    shared_memory_bytes,
    known."blocks per SM" AS blocks_per_sm,
    known."warps per SM" AS warps_per_sm,
    known."est. achieved occupancy %" AS occupancy_percent,
    known."Collective name" AS collective,
    coalesce(known."Process Group Name", known."Process Group ID") AS group_name,
    known."Process Group Description" AS group_desc,
    group_size,
    known."Process Group Ranks" AS group_ranks,
    known.dtype AS comm_dtype,
    in_elements,
    out_elements,
    known.Seq AS comm_seq,
    -- Looked for only where something is missing that most events have.
    CASE
        WHEN known.device IS NULL OR known.stream IS NULL OR known.correlation IS NULL
            OR (kind = 'kernel' AND (grid[1] IS NULL OR block[1] IS NULL OR shared_memory_bytes IS NULL))
            OR (kind <> 'kernel' AND size_bytes IS NULL)
            OR (is_comm AND (group_size IS NULL OR in_elements IS NULL OR out_elements IS NULL))
        THEN lost_of(
            args,
            [
                '$.device', '$.stream', '$.correlation', '$.bytes', '$.grid', '$."grid dim"', '$.block', '$."block dim"',
                '$."registers per thread"', '$."shared memory"', '$."Group size"', '$."In msg nelems"',
                '$."Out msg nelems"'
            ],
            [
                known.device IS NULL, known.stream IS NULL, known.correlation IS NULL, size_bytes IS NULL,
                grid[1] IS NULL, grid[1] IS NULL, block[1] IS NULL, block[1] IS NULL,
                known."registers per thread" IS NULL, shared_memory_bytes IS NULL, group_size IS NULL,
                in_elements IS NULL, out_elements IS NULL
            ]
        )
    END AS lost_numbers
FROM launches;
