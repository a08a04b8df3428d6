-- One row per communication kernel whose launch is in the trace: how many compute kernels the host launched between the
-- collective before it and this one.
--
-- The order is that of the launch calls of a device, and of the kernels where one call (a graph replay) launches
-- several. So collectives that follow each other are rows with few kernels before them, on whatever streams they run.
--
-- empty without: collectives
-- columns: trace, rank, device, trace_id
--   op_id            BIGINT   the kernel (gpu_ops.op_id)
--   collective_kind  VARCHAR  as in the metric collectives
--   size_bytes       BIGINT   as in the metric collectives
--   kernels_before   BIGINT   compute kernels launched since the collective before it; NULL: it is the device's first
--   launch_ns        BIGINT   start of its launch call
--   launch_end_ns    BIGINT   end of its launch call
--   start_ns         BIGINT   start of the kernel
--   dur_ns           BIGINT   duration of the kernel
WITH launched AS (
    SELECT
        ops.trace_id, ops.device, ops.op_id, ops.is_comm, ops.start_ns, calls.start_ns AS launch_ns,
        calls.start_ns + calls.dur_ns AS launch_end_ns,
        -- Over hundred thousand rows, DuckDB takes fifty times as long for a count with a filter.
        CAST(sum(CASE WHEN ops.is_comm THEN 0 ELSE 1 END) OVER issued AS BIGINT) AS compute_count
    FROM gpu_ops AS ops
    JOIN launching_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
    SEMI JOIN collectives AS comm ON comm.trace_id = ops.trace_id AND comm.device = ops.device
    WHERE ops.kind = 'kernel'
    WINDOW issued AS (
        PARTITION BY ops.trace_id, ops.device
        ORDER BY calls.start_ns, ops.start_ns, ops.op_id
        ROWS UNBOUNDED PRECEDING
    )
)
SELECT
    comm.trace, comm.rank, comm.device, comm.trace_id, comm.op_id, comm.collective_kind, comm.size_bytes,
    launched.compute_count - lag(launched.compute_count) OVER (
        PARTITION BY comm.trace_id, comm.device ORDER BY launched.launch_ns, comm.start_ns, comm.op_id
    ) AS kernels_before,
    launched.launch_ns, launched.launch_end_ns, comm.start_ns, comm.dur_ns
FROM collectives AS comm
JOIN launched USING (trace_id, op_id)
ORDER BY comm.trace_id, comm.device, launched.launch_ns, comm.start_ns, comm.op_id
