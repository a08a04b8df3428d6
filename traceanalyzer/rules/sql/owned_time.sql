-- One row per fired finding and bucket, compute by the class of its kernels: the time that the finding alone owns.
WITH owners AS (
    SELECT
        row_trace_id, row_device, item_id,
        bucket = 'compute' AS is_compute,
        any_value(bucket) AS bucket,
        any_value(dur_ns) AS dur_ns,
        min(position) AS owner
    FROM claims
    GROUP BY row_trace_id, row_device, item_id, is_compute
)
SELECT
    owner,
    CASE WHEN is_compute THEN 'compute.' || coalesce(names.class, 'other') ELSE bucket END AS bucket,
    sum(owners.dur_ns)::BIGINT AS owned_ns
FROM owners
LEFT JOIN gpu_ops AS ops ON is_compute AND ops.trace_id = owners.row_trace_id AND ops.op_id = owners.item_id
LEFT JOIN kernel_class_names AS names USING (name)
GROUP BY ALL
ORDER BY ALL
