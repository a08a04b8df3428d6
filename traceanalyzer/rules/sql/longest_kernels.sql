-- The kernels that take most of the time a finding claims, with the longest call of each.
SELECT
    name,
    count(*) AS calls,
    sum(wall_ns) / 1e6 AS ms,
    arg_max(class, (dur_ns, -start_ns, -op_id)) AS class,
    arg_max(precision, (dur_ns, -start_ns, -op_id)) AS precision,
    arg_max(operator, (dur_ns, -start_ns, -op_id)) AS operator,
    arg_max(step, (dur_ns, -start_ns, -op_id)) AS longest_in_step,
    arg_max(start_ns, (dur_ns, -start_ns, -op_id)) AS start_ns,
    max(dur_ns) AS dur_ns
FROM kernel_class
WHERE trace_id = $trace_id
  AND device = $device
  AND wall_ns > 0
  AND TRUE /* compute_ops */
GROUP BY name
ORDER BY sum(wall_ns) DESC, name
LIMIT 5
