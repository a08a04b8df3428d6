-- Host slices in nesting order: by thread, start, longer first, calls of the runtime last (they lie inside an operator
-- that takes as long, whatever order a tool has written them in), file order. Python frames that were left open have ended.
SELECT
    event_id AS slice_id, thread_id, category, raw_category, name,
    start_ns + $base_ns AS start_ns,
    coalesce(ended_frames.dur_ns, host.dur_ns) AS dur_ns,
    correlation, external_id, sequence, forward_thread, input_shapes,
    CASE
        WHEN category = 'python' AND starts_with(name, 'nn.Module: ') THEN CAST(3 AS BIGINT)
        ELSE CAST(coalesce(list_position(['cpu_op', 'annotation', 'python'], category), 0) - 1 AS BIGINT)
    END AS ancestor
FROM read_parquet($host) AS host
LEFT JOIN ended_frames USING (event_id)
JOIN threads ON threads.pid IS NOT DISTINCT FROM host.pid AND threads.tid IS NOT DISTINCT FROM host.tid
WHERE NOT (start_ns = 0 AND $drop_zero)
ORDER BY thread_id, start_ns, coalesce(ended_frames.dur_ns, host.dur_ns) DESC, category IN ('runtime', 'driver'), event_id;
