-- How many launches wait to start on a device ($2) of a trace ($1) within a time ($3 to $4), all its streams together. A
-- launch waits from the start of its call to the start of the first operation that it started. One row per stretch of $5
-- ns in which this changes: its first change with the most that wait in it, and its last change with what waits then.
WITH waiting AS (
    SELECT any_value(slices.start_ns) AS start_ns, min(ops.start_ns) AS end_ns
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS slices ON slices.trace_id = ops.trace_id AND slices.slice_id = ops.launch_id
    WHERE ops.trace_id = $1 AND slices.trace_id = $1 AND ops.device = $2 AND ops.start_ns > $3 AND slices.start_ns < $4
    GROUP BY ops.stream, ops.launch_id
),
changes AS (
    SELECT unnest([greatest(start_ns, $3), least(end_ns, $4)]) AS at_ns, unnest([1, -1]) AS change
    FROM waiting
    WHERE end_ns > start_ns
),
depths AS (
    SELECT at_ns, CAST(sum(sum(change)) OVER (ORDER BY at_ns) AS BIGINT) AS value
    FROM changes
    GROUP BY at_ns
)
SELECT min(at_ns) AS at_ns, max(value) AS most, max(at_ns) AS last_at_ns, arg_max(value, at_ns) AS last_value
FROM depths
WHERE at_ns < $4
GROUP BY (at_ns - $3) // $5
ORDER BY at_ns
