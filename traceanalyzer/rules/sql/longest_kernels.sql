-- The kernels that take most of the time a finding claims, with the longest call of each.
SELECT
    name,
    count(*) AS calls,
    round(sum(wall_ns) / 1e6, 3) AS ms,
    any_value(class) AS class,
    any_value(precision) AS precision,
    any_value(operator) AS operator,
    arg_max(step, (dur_ns, -start_ns)) AS longest_in_step,
    arg_max(start_ns, (dur_ns, -start_ns)) AS start_ns,
    max(dur_ns) AS dur_ns
FROM kernel_class
WHERE trace_id = $trace_id
  AND device = $device
  AND wall_ns > 0
  AND TRUE /* compute_ops */
GROUP BY name
ORDER BY sum(wall_ns) DESC, name
LIMIT 5
