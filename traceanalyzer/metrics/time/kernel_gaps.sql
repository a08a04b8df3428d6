-- One row per stretch of a device's span in which no GPU operation runs on any stream.
--
-- A gap ends where the next operation starts. launch_late_ns is the part of the gap before that operation's launch call
-- returned: if the launch came early, the host did not cause the gap.
--
-- columns: trace, rank, device
--   start_ns       BIGINT   end of the last operation before the gap
--   dur_ns         BIGINT   length of the gap
--   before_name    VARCHAR  operation whose end begins the gap
--   after_name     VARCHAR  operation whose start ends the gap
--   after_op_id    BIGINT   that operation
--   launch_late_ns BIGINT   part of the gap before that operation's launch call returned; NULL: the call is not in the
--                           trace
WITH ops AS (
    SELECT {'trace_id': trace_id, 'device': device} AS key, start_ns, start_ns + dur_ns AS end_ns
    FROM gpu_ops
),
gaps AS (
    SELECT key.trace_id AS trace_id, key.device AS device, start_ns, end_ns
    FROM interval_gaps('ops')
),
befores AS (
    SELECT gaps.trace_id, gaps.device, gaps.start_ns, min(op_id) AS before_op_id
    FROM gaps
    JOIN gpu_ops
        ON gpu_ops.trace_id = gaps.trace_id
        AND gpu_ops.device = gaps.device
        AND gpu_ops.start_ns + gpu_ops.dur_ns = gaps.start_ns
    GROUP BY ALL
),
afters AS (
    SELECT gaps.trace_id, gaps.device, gaps.start_ns, gaps.end_ns, min(op_id) AS after_op_id
    FROM gaps
    JOIN gpu_ops
        ON gpu_ops.trace_id = gaps.trace_id
        AND gpu_ops.device = gaps.device
        AND gpu_ops.start_ns = gaps.end_ns
        AND gpu_ops.dur_ns > 0
    GROUP BY ALL
)
SELECT
    traces.trace, traces.rank, afters.device, afters.start_ns,
    afters.end_ns - afters.start_ns AS dur_ns,
    before_op.name AS before_name, after_op.name AS after_name, after_op_id,
    CASE
        WHEN launches.launch_id IS NOT NULL
        THEN greatest(0, least(launches.start_ns + api_ns, afters.end_ns) - afters.start_ns)
    END AS launch_late_ns
FROM afters
JOIN canonical.traces USING (trace_id)
LEFT JOIN befores USING (trace_id, device, start_ns)
LEFT JOIN gpu_ops AS before_op ON before_op.trace_id = befores.trace_id AND before_op.op_id = before_op_id
JOIN gpu_ops AS after_op ON after_op.trace_id = afters.trace_id AND after_op.op_id = after_op_id
LEFT JOIN launches
    ON launches.trace_id = afters.trace_id AND launches.device = afters.device AND launches.launch_id = after_op.launch_id
ORDER BY traces.trace_id, afters.device, afters.start_ns
