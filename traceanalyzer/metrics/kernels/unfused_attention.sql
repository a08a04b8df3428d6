-- One row per kernel of an attention block that writes its scores to memory: matmul, softmax, matmul.
--
-- A block is a softmax kernel (not a log-softmax) with a matmul at most four kernels before it and a matmul at most
-- four kernels after it on the same stream, with only elementwise kernels, copies and reductions in between. The
-- backward pass has the same pattern. A fused kernel (flash, memory-efficient, cuDNN) never matches.
--
-- empty without: kernel_class WHERE class = 'softmax'
-- columns: trace, rank, device, trace_id
--   block_id     BIGINT   softmax kernel of the block (gpu_ops.op_id)
--   op_id        BIGINT   the kernel (gpu_ops.op_id)
--   class        VARCHAR  class of the kernel
--   wall_ns      BIGINT   its part of the analysis window's wall time
WITH numbered AS (
    SELECT
        trace_id, device, stream, op_id, class, wall_ns,
        row_number() OVER (PARTITION BY trace_id, device, stream ORDER BY start_ns, op_id) AS position
    FROM kernel_class
),
softmaxes AS (
    SELECT *
    FROM numbered
    SEMI JOIN (
        SELECT trace_id, op_id
        FROM kernel_class
        WHERE class = 'softmax'
          AND NOT regexp_matches(name, '(?i)log_?softmax')
          -- PyTorch's kernel for short rows is both; its fifth template argument says which.
          AND NOT regexp_matches(name, 'softmax_warp_\w+<([^<>,]+,){4} *(\(bool\))?(true|1)\b')
          AND coalesce(operator NOT ILIKE '%log_softmax%', TRUE)
    ) AS plain USING (trace_id, op_id)
),
neighbours AS (
    SELECT
        softmaxes.op_id AS block_id,
        numbered.*,
        softmaxes.distance
    -- Every position is listed, because a join on a range of positions compares all kernels with all softmaxes.
    FROM (SELECT *, unnest(range(-4, 5)) AS distance FROM softmaxes) AS softmaxes
    JOIN numbered
      ON numbered.trace_id = softmaxes.trace_id
     AND numbered.device = softmaxes.device
     AND numbered.stream IS NOT DISTINCT FROM softmaxes.stream
     AND numbered.position = softmaxes.position + softmaxes.distance
),
edges AS (
    SELECT
        trace_id, device, block_id,
        max(distance) FILTER (WHERE class = 'gemm' AND distance < 0) AS first_distance,
        min(distance) FILTER (WHERE class = 'gemm' AND distance > 0) AS last_distance,
        max(distance) FILTER (WHERE class NOT IN ('gemm', 'elementwise', 'copy', 'reduce') AND distance < 0) AS stranger_before,
        min(distance) FILTER (WHERE class NOT IN ('gemm', 'elementwise', 'copy', 'reduce') AND distance > 0) AS stranger_after
    FROM neighbours
    GROUP BY trace_id, device, block_id
)
SELECT
    traces.trace, traces.rank, neighbours.device, neighbours.trace_id,
    min(neighbours.block_id) AS block_id,
    neighbours.op_id,
    any_value(neighbours.class) AS class,
    any_value(neighbours.wall_ns) AS wall_ns
FROM neighbours
JOIN canonical.traces AS traces USING (trace_id)
JOIN edges USING (trace_id, device, block_id)
WHERE neighbours.distance BETWEEN edges.first_distance AND edges.last_distance
  AND coalesce(edges.stranger_before < edges.first_distance, TRUE)
  AND coalesce(edges.stranger_after > edges.last_distance, TRUE)
GROUP BY traces.trace, traces.rank, neighbours.device, neighbours.trace_id, neighbours.op_id
