-- One row per kernel with a recorded launch grid on a device with a known number of SMs: how much of the device its
-- grid can fill.
--
-- An SM issues four warps of 32 threads a cycle, so a block of fewer than 128 threads counts as a part of an SM. A grid
-- that fills the device has a share of 1 or more. The share says nothing about what limits the kernel: a full grid can
-- be slow, too. Communication kernels are not listed, as they use few SMs on purpose.
-- Source: NVIDIA, CUDA C++ Best Practices Guide, 'Thread and Block Heuristics'; CUDA C++ Programming Guide, 'Compute
-- Capabilities' (four warp schedulers an SM).
--
-- columns: trace, rank, device, trace_id
--   op_id         BIGINT   gpu_ops.op_id
--   blocks        BIGINT   blocks of the launch grid
--   threads       BIGINT   threads of a block
--   sm_count      INTEGER  SMs or compute units of the device
--   filled_share  DOUBLE   blocks x least(threads / 128, 1) / SMs
SELECT
    traces.trace, traces.rank, ops.device, ops.trace_id, ops.op_id,
    ops.grid_x * ops.grid_y * ops.grid_z AS blocks,
    ops.block_x * ops.block_y * ops.block_z AS threads,
    devices.sm_count,
    blocks * least(threads / 128, 1) / devices.sm_count AS filled_share
FROM gpu_ops AS ops
JOIN traces USING (trace_id)
JOIN devices USING (trace_id, device)
WHERE ops.kind = 'kernel'
  AND NOT ops.is_comm
  AND ops.grid_x * ops.grid_y * ops.grid_z > 0
  AND ops.block_x * ops.block_y * ops.block_z > 0
  AND devices.sm_count > 0
