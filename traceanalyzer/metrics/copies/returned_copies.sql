-- One row per device with steps: how much of what is copied to the device in the steps of the analysis window was
-- copied to the host before, in the same step.
--
-- The n-th copy of a size to the device returns data where n copies of this size went to the host before it, in the same
-- step. Activations that are offloaded go and come back within a step. Offloaded weights come before their gradients go,
-- so they do not count. Copies below 1 MiB are left out.
--
-- columns: trace, rank, device, trace_id
--   copied_bytes    HUGEINT  bytes copied to the device
--   returned_bytes  HUGEINT  part of them that was copied to the host before
WITH copies AS (
    SELECT
        ops.trace_id, ops.device, ops.copy_kind, ops.size_bytes,
        row_number() OVER (
            PARTITION BY ops.trace_id, ops.device, steps.step, ops.size_bytes, ops.copy_kind
            ORDER BY ops.start_ns, ops.op_id
        ) AS nth,
        count_if(ops.copy_kind = 'DtoH') OVER (
            PARTITION BY ops.trace_id, ops.device, steps.step, ops.size_bytes
            ORDER BY ops.start_ns, ops.op_id
        ) AS down_count
    FROM gpu_ops AS ops
    ASOF JOIN attribution.steps AS steps
        ON steps.trace_id = ops.trace_id AND steps.device = ops.device AND steps.start_ns <= ops.start_ns
    WHERE steps.kept AND ops.start_ns < steps.end_ns AND ops.copy_kind IN ('DtoH', 'HtoD') AND ops.size_bytes >= 1048576
)
SELECT
    traces.trace, traces.rank, copies.device, copies.trace_id,
    coalesce(sum(copies.size_bytes) FILTER (WHERE copies.copy_kind = 'HtoD'), 0) AS copied_bytes,
    coalesce(sum(copies.size_bytes) FILTER (WHERE copies.copy_kind = 'HtoD' AND copies.nth <= copies.down_count), 0) AS returned_bytes
FROM copies
JOIN traces USING (trace_id)
GROUP BY traces.trace, traces.rank, copies.device, copies.trace_id
ORDER BY copies.trace_id, copies.device
