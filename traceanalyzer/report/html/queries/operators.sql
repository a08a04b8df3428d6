-- One row per operator and shapes of its inputs, all traces together, by time on the device and then on the host: calls,
-- and the sums of op_summary (self is without the operators inside).
SELECT
    name, input_shapes,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(host_sum_ns) AS BIGINT) AS host_sum_ns,
    CAST(sum(host_self_sum_ns) AS BIGINT) AS host_self_sum_ns,
    CAST(sum(device_sum_ns) AS BIGINT) AS device_sum_ns,
    CAST(sum(device_self_sum_ns) AS BIGINT) AS device_self_sum_ns
FROM op_summary
GROUP BY name, input_shapes
ORDER BY device_self_sum_ns DESC, host_self_sum_ns DESC, name, input_shapes
