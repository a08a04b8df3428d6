-- One row per kernel during which pages of managed memory moved on demand, and one per trace and device for moves while
-- no kernel ran.
--
-- A page moves when a kernel or the host touches it and it lies on the other side; what touched it waits. Moves that
-- the program asked for (cudaMemPrefetchAsync) do not count. Each move belongs to the last kernel that started before
-- it and still ran when the move began. Only Nsight Systems records these moves.
--
-- empty without: managed_memory
-- columns: trace, rank, device, trace_id
--   op_id            BIGINT   the kernel (gpu_ops.op_id); NULL: no kernel ran
--   name             VARCHAR  its name
--   dur_ns           BIGINT   its duration
--   move_count       BIGINT   moves
--   size_bytes       BIGINT   bytes moved
--   to_device_bytes  BIGINT   part of them that moved to the device
--   moving_ns        BIGINT   sum of the moves' durations
--   fault_count      BIGINT   page faults of the GPU meanwhile; NULL: none recorded (--cuda-um-gpu-page-faults)
WITH moves AS (
    SELECT *
    FROM managed_memory
    WHERE kind = 'gpu_fault'
       OR (kind = 'move' AND cause IS DISTINCT FROM 'user prefetch')
),
placed AS (
    SELECT
        moves.trace_id, moves.device, moves.kind, moves.copy_kind, moves.size_bytes, moves.fault_count,
        CASE WHEN moves.kind = 'move' THEN moves.dur_ns END AS move_ns,
        CASE WHEN kernels.start_ns + kernels.dur_ns > moves.start_ns THEN kernels.op_id END AS op_id
    FROM moves
    ASOF LEFT JOIN (FROM gpu_ops WHERE kind = 'kernel') AS kernels
        ON kernels.trace_id = moves.trace_id
       AND kernels.device = moves.device
       AND kernels.start_ns <= moves.start_ns
)
SELECT
    traces.trace, traces.rank, placed.device, placed.trace_id, placed.op_id,
    any_value(ops.name) AS name,
    any_value(ops.dur_ns) AS dur_ns,
    count(*) FILTER (WHERE placed.kind = 'move') AS move_count,
    TRY_CAST(coalesce(sum(placed.size_bytes), 0) AS BIGINT) AS size_bytes,
    TRY_CAST(coalesce(sum(placed.size_bytes) FILTER (WHERE placed.copy_kind = 'HtoD'), 0) AS BIGINT) AS to_device_bytes,
    coalesce(sum(placed.move_ns), 0)::BIGINT AS moving_ns,
    sum(placed.fault_count)::BIGINT AS fault_count
FROM placed
JOIN traces USING (trace_id)
LEFT JOIN gpu_ops AS ops ON ops.trace_id = placed.trace_id AND ops.op_id = placed.op_id
GROUP BY traces.trace, traces.rank, placed.device, placed.trace_id, placed.op_id
ORDER BY placed.trace_id, placed.device, placed.op_id
