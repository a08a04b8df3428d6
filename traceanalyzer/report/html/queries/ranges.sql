-- One row per range that the program marked and the ranges around it, all traces together, by the time in which GPUs run what
-- was launched inside: NULL where no launch was recorded.
SELECT
    name,
    array_to_string(list_reverse(string_split(parent_path, ';')), ' in ') AS inside,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(host_sum_ns) AS BIGINT) AS host_sum_ns,
    CAST(sum(host_self_ns) AS BIGINT) AS host_self_ns,
    CAST(sum(busy_ns) AS BIGINT) AS busy_ns,
    CAST(sum(idle_ns) AS BIGINT) AS idle_ns,
    CAST(sum(op_count) AS BIGINT) AS op_count
FROM ranges
WHERE path IS NOT NULL
GROUP BY name, path, parent_path, depth
ORDER BY busy_ns DESC NULLS LAST, host_sum_ns DESC, depth, path
