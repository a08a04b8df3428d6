-- One row per compute kernel that runs beside communication, and how long equal kernels take alone.
--
-- Kernels are equal that have one name, grid, block and operator, and whose operator has the same input shapes. Where
-- shapes were not recorded, only kernels whose grid says how much they do are compared (elementwise, norm, softmax and
-- copy). Alone means that no communication runs at all. What takes how long beside it is known from kernels that have
-- it beside them for four fifths of their time. No kernel counts where other compute runs beside it.
--
-- empty without: canonical.gpu_ops WHERE is_comm
-- columns: trace, rank, device, trace_id
--   op_id         BIGINT   the kernel (gpu_ops.op_id)
--   name          VARCHAR  its name
--   start_ns      BIGINT   start
--   dur_ns        BIGINT   duration
--   beside_share  DOUBLE   share of it in which communication runs
--   alone_ns      DOUBLE   median duration of equal kernels that run alone
--   alone_count   BIGINT   these kernels
--   beside_count  BIGINT   equal kernels that run beside communication for four fifths of their time
--   slowdown      DOUBLE   median duration of these, over alone_ns
--   is_apart      BOOLEAN  nine tenths of those beside communication take longer than nine tenths of those alone
WITH comm AS (
    SELECT {'trace_id': trace_id, 'device': device} AS key, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.gpu_ops
    WHERE kind = 'kernel' AND is_comm
),
islands AS (
    SELECT
        key.trace_id AS trace_id, key.device AS device, start_ns, end_ns,
        coalesce(sum(end_ns - start_ns) OVER (
            PARTITION BY key.trace_id, key.device
            ORDER BY start_ns
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ), 0) AS before_ns
    FROM interval_merge('comm')
),
kernels AS (
    SELECT
        kernels.trace_id, kernels.device, kernels.op_id, kernels.start_ns,
        kernels.start_ns + kernels.dur_ns AS end_ns,
        kernels.dur_ns,
        hash(
            kernels.name, kernels.operator, operators.input_shapes,
            ops.grid_x, ops.grid_y, ops.grid_z, ops.block_x, ops.block_y, ops.block_z
        ) AS equal_id
    FROM kernel_class AS kernels
    JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
    LEFT JOIN canonical.host_slices AS operators
           ON operators.trace_id = kernels.trace_id AND operators.slice_id = kernels.operator_id
    WHERE kernels.class <> 'comm'
      AND kernels.wall_ns >= 0.9 * kernels.dur_ns
      AND (operators.input_shapes IS NOT NULL OR kernels.class IN ('elementwise', 'norm', 'softmax', 'copy'))
      AND ops.grid_x IS NOT NULL
      AND (kernels.trace_id, kernels.device) IN (SELECT (trace_id, device) FROM islands)
),
placed AS (
    SELECT
        kernels.*,
        coalesce(last.before_ns + least(kernels.end_ns, last.end_ns) - last.start_ns, 0)
            - coalesce(first.before_ns + least(kernels.start_ns, first.end_ns) - first.start_ns, 0) AS beside_ns
    FROM kernels
    ASOF LEFT JOIN islands AS first
        ON first.trace_id = kernels.trace_id AND first.device = kernels.device AND first.start_ns <= kernels.start_ns
    ASOF LEFT JOIN islands AS last
        ON last.trace_id = kernels.trace_id AND last.device = kernels.device AND last.start_ns <= kernels.end_ns
),
compared AS (
    SELECT
        trace_id, device, equal_id,
        count(*) FILTER (WHERE beside_ns = 0) AS alone_count,
        count(*) FILTER (WHERE beside_ns >= 0.8 * dur_ns) AS beside_count,
        median(dur_ns) FILTER (WHERE beside_ns = 0) AS alone_ns,
        median(dur_ns) FILTER (WHERE beside_ns >= 0.8 * dur_ns) / nullif(alone_ns, 0) AS slowdown,
        coalesce(
            quantile_cont(dur_ns, 0.1) FILTER (WHERE beside_ns >= 0.8 * dur_ns)
                > quantile_cont(dur_ns, 0.9) FILTER (WHERE beside_ns = 0),
            FALSE
        ) AS is_apart
    FROM placed
    GROUP BY trace_id, device, equal_id
)
SELECT
    traces.trace, traces.rank, placed.device, placed.trace_id, placed.op_id, ops.name, placed.start_ns, placed.dur_ns,
    placed.beside_ns / nullif(placed.dur_ns, 0) AS beside_share,
    compared.alone_ns, compared.alone_count, compared.beside_count, compared.slowdown, compared.is_apart
FROM placed
JOIN compared USING (trace_id, device, equal_id)
JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
JOIN canonical.traces AS traces USING (trace_id)
WHERE placed.beside_ns > 0
  AND compared.alone_count > 0
ORDER BY placed.trace_id, placed.device, placed.start_ns, placed.op_id
