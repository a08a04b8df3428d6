-- Host slices with what the dialect says about them; those that are GPU work, or only drawn, are left out.
CREATE OR REPLACE TABLE recast_host AS
SELECT
    host.* REPLACE (
        coalesce(recast.category, host.category) AS category,
        coalesce(recast.name, host.name) AS name,
        coalesce(recast.pid, host.pid) AS pid,
        coalesce(recast.tid, host.tid) AS tid,
        coalesce(recast.correlation, host.correlation) AS correlation,
        coalesce(recast.external_id, host.external_id) AS external_id
    )
FROM read_parquet($host) AS host
LEFT JOIN recast USING (event_id)
WHERE coalesce(recast.class, 'host') IN ('host', 'unknown');
-- Slices on no thread, beside the file's other events.
CREATE OR REPLACE TABLE recast_other AS
(SELECT * FROM read_parquet($other) LIMIT 0)
UNION ALL BY NAME
SELECT
    host.event_id,
    'async' AS class,
    'X' AS phase,
    recast.raw_category, recast.category, host.name,
    coalesce(recast.pid, host.pid) AS pid,
    host.tid, host.start_ns, host.dur_ns
FROM read_parquet($host) AS host
JOIN recast USING (event_id)
WHERE recast.class = 'async';
-- Where each piece of GPU work was drawn.
CREATE OR REPLACE TABLE lanes AS
SELECT event_id, pid, tid, start_ns FROM read_parquet($gpu_events)
UNION ALL
SELECT host.event_id, host.pid, host.tid, host.start_ns
FROM read_parquet($host) AS host
JOIN recast USING (event_id)
WHERE recast.class = 'gpu';
CREATE OR REPLACE TABLE recast_gpu AS
SELECT
    gpu.* REPLACE (
        hip_kind(gpu.name, kind) AS kind,
        coalesce(gpu.copy_kind, recast.copy_kind) AS copy_kind,
        coalesce(recast.name, gpu.name) AS name,
        CAST(coalesce(gpu.device, recast.device) AS INTEGER) AS device,
        coalesce(gpu.correlation, recast.correlation) AS correlation
    )
FROM read_parquet($gpu) AS gpu
LEFT JOIN recast USING (event_id)
UNION ALL BY NAME
SELECT
    host.event_id,
    CAST(recast.device AS INTEGER) AS device,
    CAST(recast.stream AS BIGINT) AS stream,
    hip_kind(coalesce(recast.name, host.name), recast.category) AS kind,
    CASE recast.category
        WHEN 'op' THEN recast.is_comm
        WHEN 'kernel'
        THEN coalesce(recast.is_comm, FALSE)
            OR regexp_matches(coalesce(recast.name, host.name, ''), '[nr]ccl|(^|[^a-z])(mccl|cncl)|cross_device_reduce', 'i')
        ELSE FALSE
    END AS is_comm,
    coalesce(recast.name, host.name) AS name,
    coalesce(recast.start_ns, host.start_ns) AS start_ns,
    coalesce(recast.dur_ns, host.dur_ns) AS dur_ns,
    recast.correlation, recast.external_id,
    memory_size(recast.size_bytes) AS size_bytes,
    recast.copy_kind,
    launchable(recast.grid)[1] AS grid_x,
    launchable(recast.grid)[2] AS grid_y,
    launchable(recast.grid)[3] AS grid_z,
    launchable(recast.block)[1] AS block_x,
    launchable(recast.block)[2] AS block_y,
    launchable(recast.block)[3] AS block_z,
    FALSE AS is_sycl, FALSE AS is_device_lost, recast.group_name, recast.collective,
    CASE WHEN recast.category = 'op' THEN recast.name END AS hlo_op,
    recast.self_ns, recast.run_id,
    CAST(0 AS TINYINT) AS lost_values
FROM read_parquet($host) AS host
JOIN recast USING (event_id)
WHERE recast.class = 'gpu';
