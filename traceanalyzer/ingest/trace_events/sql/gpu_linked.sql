-- GPU work with what caused it. The launching call shares the correlation id; the operator is the one of the external
-- id, else the innermost around the call; annotation and Python frame lie around the call, else around the operator.
WITH ops AS (
    SELECT *
    FROM read_parquet($gpu)
    WHERE NOT (start_ns = 0 AND $drop_zero)
),
launches AS (
    SELECT
        correlation,
        arg_min(
            {'slice_id': slice_id, 'op_id': op_id, 'annotation_id': annotation_id, 'python_id': python_id},
            (start_ns, slice_id)
        ) AS call
    FROM read_parquet($slices)
    WHERE category IN ('runtime', 'driver') AND correlation IN (SELECT correlation FROM ops)
    GROUP BY correlation
),
external_slices AS (
    SELECT
        external_id,
        arg_max(
            {'slice_id': slice_id, 'annotation_id': annotation_id, 'python_id': python_id}, (depth, slice_id)
        ) FILTER (WHERE category = 'cpu_op') AS op,
        arg_max(slice_id, (depth, slice_id)) FILTER (WHERE category = 'annotation') AS annotation_id
    FROM read_parquet($slices)
    WHERE category IN ('cpu_op', 'annotation') AND external_id IN (SELECT external_id FROM ops WHERE external_id > 0)
    GROUP BY external_id
)
SELECT
    ops.event_id AS op_id,
    coalesce(ops.device, 0) AS device,
    ops.* EXCLUDE (event_id, device, start_ns, group_ranks),
    ops.start_ns + $base_ns AS start_ns,
    launches.call.slice_id AS launch_id,
    coalesce(external_slices.op.slice_id, launches.call.op_id) AS cpu_op_id,
    coalesce(
        launches.call.annotation_id, external_slices.op.annotation_id, external_slices.annotation_id
    ) AS annotation_id,
    coalesce(launches.call.python_id, external_slices.op.python_id) AS python_id,
    CASE
        WHEN external_slices.op IS NOT NULL THEN 'external_id'
        WHEN launches.call.op_id IS NOT NULL THEN 'nesting'
    END AS link_source,
    CASE WHEN contains(ops.group_ranks, '...') THEN coalesce(groups.ranks, ops.group_ranks) ELSE ops.group_ranks END
        AS group_ranks
FROM ops
LEFT JOIN launches ON launches.correlation = ops.correlation
LEFT JOIN external_slices ON external_slices.external_id = ops.external_id
LEFT JOIN process_groups AS groups ON groups.group_name = ops.group_name
ORDER BY device, stream, start_ns, op_id;
