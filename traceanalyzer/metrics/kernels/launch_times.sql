-- One row per kernel: how its time compares with other launches of the same kernel.
--
-- Communication kernels are not listed, as their time includes the wait for other ranks.
-- A launch that takes many times as long as the usual one of its grid was held up, as by another process or a page that
-- moved: the kernel does no more work. Several launches that take longer by about as much are work that only some of
-- them do. Of a kernel whose larger grids take no longer, more blocks for the same work are not known to be faster.
--
-- columns: trace, rank, device, trace_id
--   op_id            BIGINT   gpu_ops.op_id
--   usual_ns         BIGINT   median of the launches of this kernel with as many blocks; of two, the shorter one
--   was_held_up      BOOLEAN  it took at least 16 times as long as the usual launch, and no others like it
--   takes_any_grid   BOOLEAN  of grids that fit on the device at once, those of four times as many blocks take at most half as long again
WITH kernels AS (
    SELECT
        ops.trace_id, ops.device, ops.op_id, ops.name, ops.dur_ns,
        ops.grid_x * ops.grid_y * ops.grid_z AS blocks,
        ops.block_x * ops.block_y * ops.block_z AS threads,
        coalesce(ops.grid_x * ops.grid_y * ops.grid_z <= devices.sm_count, TRUE) AS fits
    FROM gpu_ops AS ops
    LEFT JOIN (SELECT trace_id, device, sm_count FROM devices) AS devices USING (trace_id, device)
    WHERE ops.kind = 'kernel' AND NOT ops.is_comm
),
-- Grids of other sizes are compared where there are any, which is rare among kernels of a library.
grids AS (
    SELECT
        trace_id, device, name, threads,
        min(blocks) FILTER (WHERE fits) AS least_blocks,
        max(blocks) FILTER (WHERE fits) AS most_blocks
    FROM kernels
    GROUP BY trace_id, device, name, threads
    HAVING most_blocks >= 4 * least_blocks
),
compared AS (
    SELECT
        kernels.trace_id, kernels.device, kernels.name, kernels.threads,
        median(kernels.dur_ns) FILTER (WHERE kernels.blocks >= grids.most_blocks / 2)
        <= 1.5 * median(kernels.dur_ns) FILTER (WHERE kernels.blocks <= 2 * grids.least_blocks) AS takes_any_grid
    FROM kernels
    JOIN grids USING (trace_id, device, name, threads)
    WHERE kernels.fits
    GROUP BY kernels.trace_id, kernels.device, kernels.name, kernels.threads
),
usual AS (
    SELECT trace_id, device, name, blocks, quantile_disc(dur_ns, 0.5) AS usual_ns
    FROM kernels
    GROUP BY trace_id, device, name, blocks
),
timed AS (
    SELECT kernels.*, usual.usual_ns, kernels.dur_ns >= 16 * greatest(usual.usual_ns, 1) AS is_long
    FROM kernels
    JOIN usual
      ON usual.trace_id = kernels.trace_id
     AND usual.device = kernels.device
     AND usual.name IS NOT DISTINCT FROM kernels.name
     AND usual.blocks IS NOT DISTINCT FROM kernels.blocks
),
long_launches AS (
    SELECT trace_id, device, name, blocks, count(*) = 1 OR max(dur_ns) >= 4 * min(dur_ns) AS are_unlike
    FROM timed
    WHERE is_long
    GROUP BY trace_id, device, name, blocks
)
SELECT
    traces.trace, traces.rank, timed.device, timed.trace_id, timed.op_id, timed.usual_ns,
    timed.is_long AND long.are_unlike AS was_held_up,
    coalesce(compared.takes_any_grid, FALSE) AS takes_any_grid
FROM timed
JOIN traces USING (trace_id)
LEFT JOIN long_launches AS long
       ON timed.is_long
      AND long.trace_id = timed.trace_id
      AND long.device = timed.device
      AND long.name IS NOT DISTINCT FROM timed.name
      AND long.blocks IS NOT DISTINCT FROM timed.blocks
LEFT JOIN compared
       ON compared.trace_id = timed.trace_id
      AND compared.device = timed.device
      AND compared.name = timed.name
      AND compared.threads = timed.threads
