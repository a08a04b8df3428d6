-- One row per trace and device: the share of its span with communication, and the share of it that compute overlaps.
--
-- Definitions as in device_time. Exposed communication is not a saving: a collective that runs before the host launches
-- the next kernel costs nothing.
--
-- columns: trace, rank, device
--   comm_kernel_count  BIGINT   communication kernels
--   comm_ns            BIGINT   time in which a communication kernel runs
--   comm_share         DOUBLE   comm_ns / span of the device
--   exposed_comm_ns    BIGINT   part of comm_ns in which no compute kernel runs
--   exposed_comm_share DOUBLE   exposed_comm_ns / span of the device
--   overlap_share      DOUBLE   share of comm_ns in which a compute kernel runs; NULL: no communication
WITH counts AS (
    SELECT trace, device, count(*) FILTER (WHERE is_comm) AS comm_kernel_count
    FROM gpu_ops
    JOIN canonical.traces USING (trace_id)
    GROUP BY trace, device
)
SELECT
    trace, rank, device, comm_kernel_count, comm_ns,
    comm_ns / nullif(span_ns, 0) AS comm_share,
    exposed_comm_ns,
    exposed_comm_ns / nullif(span_ns, 0) AS exposed_comm_share,
    (comm_ns - exposed_comm_ns) / nullif(comm_ns, 0) AS overlap_share
FROM device_time
JOIN counts USING (trace, device)
