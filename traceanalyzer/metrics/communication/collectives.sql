-- One row per communication kernel: which collective it is, how much data it moves, and how fast.
--
-- Bytes and bandwidths follow NCCL's own benchmarks. The size of an all-gather is what one rank receives; that of a gather
-- or scatter is the part of one rank times the ranks; the size of any other collective is what one rank sends (for a
-- receive: what arrives). The algorithm bandwidth is the size divided by the duration. The bus bandwidth corrects it by how
-- often data crosses a link, so that it compares with the hardware: of n ranks, 2(n-1)/n for all-reduce, (n-1)/n for
-- all-gather, reduce-scatter, all-to-all, gather and scatter, 1 for the rest; an all-reduce in the network (NVLS or
-- CollNet in the kernel's name) has (n-1)/(n+1). Of one rank, and of collectives whose kind is unknown, it is NULL.
-- The duration includes the wait for the last rank to arrive, so the bandwidth of one rank is a lower bound. Sizes are
-- NULL where the profiler did not record them.
-- Source: github.com/NVIDIA/nccl-tests, doc/PERFORMANCE.md, and for gather and scatter src/gather.cu and src/scatter.cu.
--
-- empty without: canonical.gpu_ops WHERE is_comm
-- columns: trace, rank, device
--   stream                BIGINT   stream
--   trace_id              INTEGER  key of the canonical tables
--   op_id                 BIGINT   the kernel (gpu_ops.op_id)
--   step                  BIGINT   step of the device in which it starts; NULL: outside steps
--   name                  VARCHAR  kernel, as written
--   collective            VARCHAR  collective, as recorded: allreduce, _allgather_base …
--   collective_kind       VARCHAR  allreduce, allgather, reducescatter, alltoall, permute (each rank sends to one other),
--                                  broadcast, reduce, gather, scatter, send, recv, sendrecv or other; from the record,
--                                  else from NCCL's own range around the launch, else from the kernel's name
--   group_name            VARCHAR  process group
--   group_desc            VARCHAR  process group description
--   group_size            INTEGER  ranks of the group
--   comm_seq              BIGINT   sequence number in the group
--   comm_dtype            VARCHAR  element type
--   size_bytes            BIGINT   bytes, as defined above
--   start_ns              BIGINT   start
--   dur_ns                BIGINT   duration, including the wait for other ranks
--   algorithm_bytes_per_s DOUBLE   size_bytes / duration
--   bus_bytes_per_s       DOUBLE   algorithm bandwidth, corrected by how often data crosses a link
WITH kinds AS (
    SELECT
        ops.*,
        lower(translate(
            coalesce(nullif(trim(collective), ''), nullif(regexp_extract(ranges.name, '^nccl:(\w+)', 1), ''), ops.name), '_ -', ''
        )) AS written
    FROM gpu_ops AS ops
    LEFT JOIN host_slices AS ranges ON ranges.trace_id = ops.trace_id AND ranges.slice_id = ops.annotation_id
    WHERE is_comm
),
sizes AS (
    SELECT
        *,
        CASE
            WHEN written LIKE '%allreduce%' THEN 'allreduce'
            WHEN written LIKE '%reducescatter%' THEN 'reducescatter'
            WHEN written LIKE '%allgather%' THEN 'allgather'
            WHEN written LIKE '%alltoall%' THEN 'alltoall'
            WHEN written LIKE '%collectivepermute%' THEN 'permute'
            WHEN written LIKE '%broadcast%' THEN 'broadcast'
            WHEN written LIKE '%sendrecv%' THEN 'sendrecv'
            WHEN written LIKE '%send%' THEN 'send'
            WHEN written LIKE '%recv%' THEN 'recv'
            WHEN written LIKE '%crossdevicereduce%' THEN 'allreduce'
            WHEN written LIKE '%reduce%' THEN 'reduce'
            WHEN written LIKE '%gather%' THEN 'gather'
            WHEN written LIKE '%scatter%' THEN 'scatter'
            ELSE 'other'
        END AS collective_kind,
        CASE
            WHEN lower(comm_dtype) = 'complexdouble' THEN 16
            WHEN lower(comm_dtype) IN ('double', 'long', 'uint64', 'complexfloat', 'float64', 'int64') THEN 8
            WHEN lower(comm_dtype) IN ('float', 'int', 'uint32', 'qint32', 'complexhalf', 'float32', 'int32') THEN 4
            WHEN lower(comm_dtype) IN ('half', 'bfloat16', 'short', 'uint16', 'float16', 'int16') THEN 2
            WHEN lower(comm_dtype) IN ('byte', 'char', 'bool', 'qint8', 'quint8', 'uint8', 'int8') THEN 1
            WHEN lower(comm_dtype) LIKE 'float8%' THEN 1
        END AS element_bytes
    FROM kinds
),
moved AS (
    SELECT
        *,
        element_bytes * CASE
            WHEN collective_kind IN ('allgather', 'recv') THEN out_elements
            WHEN collective_kind = 'gather' THEN in_elements * group_size
            WHEN collective_kind = 'scatter' THEN out_elements * group_size
            ELSE in_elements
        END AS payload_bytes,
        CASE
            WHEN group_size < 2 OR collective_kind = 'other' THEN NULL
            WHEN collective_kind = 'allreduce' AND regexp_matches(name, 'NVLS|COLLNET')
            THEN 1.0 * (group_size - 1) / (group_size + 1)
            WHEN collective_kind = 'allreduce' THEN 2.0 * (group_size - 1) / group_size
            WHEN collective_kind IN ('allgather', 'reducescatter', 'alltoall', 'gather', 'scatter')
            THEN 1.0 * (group_size - 1) / group_size
            ELSE 1
        END AS bus_factor
    FROM sizes
)
SELECT
    trace, rank, moved.device, moved.stream, moved.trace_id, moved.op_id,
    CASE WHEN moved.start_ns < steps.end_ns THEN steps.step END AS step,
    moved.name, collective, collective_kind, group_name, group_desc, group_size, comm_seq, comm_dtype,
    payload_bytes AS size_bytes, moved.start_ns, moved.dur_ns,
    payload_bytes * 1e9 / nullif(moved.dur_ns, 0) AS algorithm_bytes_per_s,
    bus_factor * payload_bytes * 1e9 / nullif(moved.dur_ns, 0) AS bus_bytes_per_s
FROM moved
JOIN canonical.traces AS traces USING (trace_id)
ASOF LEFT JOIN attribution.steps AS steps
    ON steps.trace_id = moved.trace_id AND steps.device = moved.device AND steps.start_ns <= moved.start_ns
ORDER BY moved.trace_id, moved.device, moved.start_ns, moved.op_id
