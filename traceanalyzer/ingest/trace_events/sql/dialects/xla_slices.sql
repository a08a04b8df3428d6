-- The slices of XLA's own JSON, with the plane and the line that they are of, and what decides what they are.
CREATE OR REPLACE TABLE xla_slices AS
WITH lane_names AS (
    SELECT pid, tid, any_value(args ->> '$.name') AS lane
    FROM read_parquet($other)
    WHERE phase = 'M' AND name = 'thread_name'
    GROUP BY pid, tid
)
SELECT
    event_id, host.name, host.pid, host.tid, host.category, host.raw_category, host.start_ns, host.dur_ns,
    process,
    coalesce(lane, '') AS lane,
    regexp_matches(process, '/host:') AS is_host,
    regexp_matches(process, '/device:TPU:\d{1,6}$') AS on_tpu,
    TRY_CAST(regexp_extract(process, '/device:[GT]PU:(\d{1,6})$', 1) AS INTEGER) AS device,
    TRY_CAST(args.args ->> '$.correlation_id' AS BIGINT) AS correlation,
    coalesce(contains(args.args, '"hlo_op"'), FALSE) AS has_hlo_op,
    coalesce(regexp_matches(args.args, '"(_src|hlo_op|correlation_id|allocator_name|tf_function_call)"'), FALSE) AS is_own,
    coalesce(regexp_matches(args.args, '"(memalloc_details|MemFree_details|MemoryResidency_details)"'), FALSE)
        AS is_memory,
    CASE WHEN on_tpu THEN args.args ->> '$.hlo_category' END AS hlo_category,
    args.args ->> '$.long_name' AS long_name,
    CASE WHEN on_tpu THEN TRY_CAST(args.args ->> '$.device_offset_ps' AS BIGINT) END AS device_offset_ps,
    CASE WHEN on_tpu THEN TRY_CAST(args.args ->> '$.device_duration_ps' AS BIGINT) END AS device_duration_ps
FROM read_parquet($host) AS host
JOIN process_names USING (pid)
LEFT JOIN lane_names ON lane_names.pid = host.pid AND lane_names.tid = host.tid
LEFT JOIN read_parquet($args) AS args USING (event_id);
-- Where a TPU shows no operation, runs of programs are its work, too.
INSERT INTO xla_slices
SELECT * REPLACE ('XLA Ops' AS lane)
FROM xla_slices
WHERE on_tpu AND lane = 'XLA Modules' AND pid NOT IN (SELECT pid FROM xla_slices WHERE on_tpu AND lane = 'XLA Ops');
