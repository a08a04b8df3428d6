-- One row per layer of the model, all traces together, by its time on the device: how many modules, calls, times with the
-- layers inside (NULL: none), operations per second of the device, and the share of the outermost modules' time.
WITH summed AS (
    SELECT
        path,
        any_value(class) AS class,
        any_value(parent_path) AS parent_path,
        any_value(depth) AS depth,
        max(module_count) AS module_count,
        CAST(sum(call_count) AS BIGINT) AS call_count,
        CAST(sum(host_sum_ns) AS BIGINT) AS host_sum_ns,
        CAST(sum(forward_ns) AS BIGINT) AS forward_ns,
        CAST(sum(backward_ns) AS BIGINT) AS backward_ns,
        CAST(sum(recomputed_ns) AS BIGINT) AS recomputed_ns,
        sum(flops)::DOUBLE / nullif(sum(modelled_ns), 0) / 1000 AS tflops
    FROM layers
    GROUP BY path
),
timed AS (
    SELECT *, forward_ns + backward_ns + recomputed_ns AS device_ns
    FROM summed
)
SELECT
    class,
    array_to_string(list_reverse(string_split(parent_path, '/')), ' in ') AS inside,
    module_count, call_count, host_sum_ns,
    nullif(forward_ns, 0) AS forward_ns,
    nullif(backward_ns, 0) AS backward_ns,
    nullif(recomputed_ns, 0) AS recomputed_ns,
    device_ns,
    nullif(tflops, 0) AS tflops,
    device_ns / nullif(sum(device_ns) FILTER (WHERE depth = 0) OVER (), 0) AS share
FROM timed
ORDER BY device_ns DESC, host_sum_ns DESC, depth, path
