-- GPU work as `gpu.sql` has it, whose arguments the scanner has typed: there is nothing unusual among them.
SELECT
    event_id,
    CAST(device AS INTEGER) AS device,
    FALSE AS is_device_lost,
    CAST(NULL AS VARCHAR) AS track_pid,
    stream, context,
    category AS kind,
    is_comm_work(category, name) AS is_comm,
    name, start_ns, dur_ns, correlation, external_id, graph_id, graph_node_id, size_bytes,
    copy_direction(category, name, FALSE) AS copy_kind,
    source_kind(category, name) AS src_kind,
    target_kind(category, name) AS dst_kind,
    grid_x, grid_y, grid_z, block_x, block_y, block_z,
    CAST(registers_per_thread AS INTEGER) AS registers_per_thread,
    shared_memory_bytes, blocks_per_sm, warps_per_sm, occupancy_percent,
    FALSE AS is_sycl,
    collective, group_name, group_desc,
    CAST(group_size AS INTEGER) AS group_size,
    group_ranks, comm_dtype, in_elements, out_elements, comm_seq,
    CAST(NULL AS VARCHAR) AS hlo_op,
    CAST(0 AS TINYINT) AS lost_values
FROM read_parquet($gpu_events);
