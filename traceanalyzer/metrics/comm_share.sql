-- One row per trace and device: how much of its span communicates, and how much of that hides behind compute.
--
-- Definitions as in device_time. Exposed communication is no saving: a collective that runs while the host has not yet
-- asked for the next kernel costs nothing.
--
-- columns:
--   trace              VARCHAR  name of the trace
--   rank               INTEGER  rank in the job
--   device             INTEGER  device
--   comm_kernel_count  BIGINT   communication kernels
--   comm_ns            BIGINT   a communication kernel runs
--   comm_share         DOUBLE   comm_ns / span of the device
--   exposed_comm_ns    BIGINT   … and no compute kernel does
--   exposed_comm_share DOUBLE   exposed_comm_ns / span of the device
--   overlap_share      DOUBLE   share of comm_ns during which a compute kernel runs; NULL without communication
WITH counts AS (
    SELECT trace, device, count(*) FILTER (WHERE is_comm) AS comm_kernel_count
    FROM gpu_ops
    JOIN canonical.traces USING (trace_id)
    GROUP BY trace, device
)
SELECT
    trace,
    rank,
    device,
    comm_kernel_count,
    comm_ns,
    comm_ns / nullif(span_ns, 0) AS comm_share,
    exposed_comm_ns,
    exposed_comm_ns / nullif(span_ns, 0) AS exposed_comm_share,
    (comm_ns - exposed_comm_ns) / nullif(comm_ns, 0) AS overlap_share
FROM device_time
JOIN counts USING (trace, device)
