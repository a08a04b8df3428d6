-- One row per trace and device that worked: how its time divides between work and idleness.
--
-- Times are lengths of unions of intervals, never sums of durations; the span runs from the first start to the last end
-- of the device's GPU operations, on all streams. Compute is every kernel (and opaque graph replay) that is no
-- communication; a kernel communicates if its name holds nccl, rccl or cross_device_reduce. Exposed communication is
-- communication while no compute kernel runs, exposed copies are copies while no kernel at all runs. These are the
-- conventional numbers, for comparison with other tools; what fixing something wins is not among them.
--
-- columns:
--   trace                VARCHAR  name of the trace
--   rank                 INTEGER  rank in the job
--   device               INTEGER  device
--   op_count             BIGINT   kernels, copies, memsets and graph replays
--   kernel_count         BIGINT   kernels
--   first_ns             BIGINT   start of the first operation
--   last_ns              BIGINT   end of the last operation
--   span_ns              BIGINT   last_ns - first_ns
--   busy_ns              BIGINT   some operation runs
--   idle_ns              BIGINT   span_ns - busy_ns
--   compute_ns           BIGINT   a compute kernel runs
--   comm_ns              BIGINT   a communication kernel runs
--   exposed_comm_ns      BIGINT   a communication kernel runs and no compute kernel does
--   memcpy_ns            BIGINT   a copy runs
--   exposed_memcpy_ns    BIGINT   a copy runs and no kernel does
--   launch_matched_count BIGINT   operations whose launching call is in the trace
--   busy_share           DOUBLE   busy_ns / span_ns
--   compute_share        DOUBLE   compute_ns / span_ns
WITH times AS (
    SELECT
        trace,
        device,
        max(op_count) FILTER (WHERE engine = 'op') AS op_count,
        coalesce(max(op_count) FILTER (WHERE engine = 'kernel'), 0) AS kernel_count,
        max(first_ns) FILTER (WHERE engine = 'op') AS first_ns,
        max(last_ns) FILTER (WHERE engine = 'op') AS last_ns,
        max(busy_ns) FILTER (WHERE engine = 'op') AS busy_ns,
        coalesce(
            max(busy_ns) FILTER (WHERE engine = 'compute_or_graph'), max(busy_ns) FILTER (WHERE engine = 'compute'), 0
        ) AS compute_ns,
        coalesce(max(busy_ns) FILTER (WHERE engine = 'comm'), 0) AS comm_ns,
        coalesce(max(busy_ns - hidden_ns) FILTER (WHERE engine = 'comm'), 0) AS exposed_comm_ns,
        coalesce(max(busy_ns) FILTER (WHERE engine = 'memcpy'), 0) AS memcpy_ns,
        coalesce(max(busy_ns - hidden_ns) FILTER (WHERE engine = 'memcpy'), 0) AS exposed_memcpy_ns
    FROM engine_time
    GROUP BY trace, device
),
launched AS (
    SELECT trace_id, device, count(launch_id) AS launch_matched_count
    FROM gpu_ops
    GROUP BY trace_id, device
)
SELECT
    trace,
    rank,
    device,
    op_count,
    kernel_count,
    times.first_ns,
    times.last_ns,
    times.last_ns - times.first_ns AS span_ns,
    busy_ns,
    times.last_ns - times.first_ns - busy_ns AS idle_ns,
    compute_ns,
    comm_ns,
    exposed_comm_ns,
    memcpy_ns,
    exposed_memcpy_ns,
    launch_matched_count,
    busy_ns / nullif(times.last_ns - times.first_ns, 0) AS busy_share,
    compute_ns / nullif(times.last_ns - times.first_ns, 0) AS compute_share
FROM times
JOIN canonical.traces USING (trace)
JOIN launched USING (trace_id, device)
ORDER BY trace_id, device
