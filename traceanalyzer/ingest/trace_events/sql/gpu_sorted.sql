-- GPU work in the order of its streams; where the process is the device, its name has the number. Shortened lists of ranks are completed from the groups of the file's header.
SELECT
    ops.event_id AS op_id,
    coalesce(tracks.device, ops.device, 0) AS device,
    ops.* EXCLUDE (event_id, device, track_pid, start_ns, is_sycl, is_device_lost, group_ranks, lost_values, grid_x, grid_y, grid_z),
    ops.start_ns + $base_ns AS start_ns,
    CASE WHEN contains(ops.group_ranks, '...') THEN coalesce(groups.ranks, ops.group_ranks) ELSE ops.group_ranks END
        AS group_ranks
FROM read_parquet($gpu) AS ops
LEFT JOIN device_tracks AS tracks ON tracks.pid = ops.track_pid
LEFT JOIN process_groups AS groups ON groups.group_name = ops.group_name
WHERE NOT (ops.start_ns = 0 AND $drop_zero)
ORDER BY coalesce(tracks.device, ops.device), ops.stream, ops.start_ns, ops.event_id;
