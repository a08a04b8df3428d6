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
        arg_min(slice_id, (start_ns, slice_id)) AS launch_id
    FROM read_parquet($slices)
    WHERE category IN ('runtime', 'driver') AND correlation IN (SELECT correlation FROM ops)
    GROUP BY correlation
),
launch_slices AS (
    SELECT launches.correlation, slices.*
    FROM launches
    JOIN read_parquet($slices) AS slices ON slices.slice_id = launches.launch_id
),
external_ops AS (
    SELECT
        external_id,
        arg_max(slice_id, (depth, slice_id)) FILTER (WHERE category = 'cpu_op') AS op_id,
        arg_max(slice_id, (depth, slice_id)) FILTER (WHERE category = 'annotation') AS annotation_id
    FROM read_parquet($slices)
    WHERE category IN ('cpu_op', 'annotation') AND external_id IN (SELECT external_id FROM ops WHERE external_id > 0)
    GROUP BY external_id
),
op_slices AS (
    SELECT external_ops.external_id, slices.slice_id, slices.annotation_id, slices.python_id
    FROM external_ops
    JOIN read_parquet($slices) AS slices ON slices.slice_id = external_ops.op_id
)
SELECT
    ops.event_id AS op_id,
    coalesce(ops.device, 0) AS device,
    ops.* EXCLUDE (event_id, device, start_ns, group_ranks),
    ops.start_ns + $base_ns AS start_ns,
    launch_slices.slice_id AS launch_id,
    coalesce(op_slices.slice_id, launch_slices.op_id) AS cpu_op_id,
    coalesce(launch_slices.annotation_id, op_slices.annotation_id, external_ops.annotation_id) AS annotation_id,
    coalesce(launch_slices.python_id, op_slices.python_id) AS python_id,
    CASE
        WHEN op_slices.slice_id IS NOT NULL THEN 'external_id'
        WHEN launch_slices.op_id IS NOT NULL THEN 'nesting'
    END AS link_source,
    CASE WHEN contains(ops.group_ranks, '...') THEN coalesce(groups.ranks, ops.group_ranks) ELSE ops.group_ranks END
        AS group_ranks
FROM ops
LEFT JOIN launch_slices ON launch_slices.correlation = ops.correlation
LEFT JOIN external_ops ON external_ops.external_id = ops.external_id
LEFT JOIN op_slices ON op_slices.external_id = ops.external_id
LEFT JOIN process_groups AS groups ON groups.group_name = ops.group_name
ORDER BY device, stream, start_ns, op_id;
