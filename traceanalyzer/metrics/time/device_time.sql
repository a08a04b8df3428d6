-- One row per trace and device with GPU work: how its time divides into busy and idle time.
--
-- Times are lengths of unions of intervals, never sums of durations. The span runs from the start of the device's first
-- GPU operation to the end of its last, on all streams. A kernel is communication if its name contains nccl, rccl or
-- cross_device_reduce; every other kernel, and every graph replay recorded as a whole, is compute. Exposed
-- communication is communication while no compute kernel runs; exposed copies are copies while no kernel of any kind
-- runs. These are the conventional numbers, for comparison with other tools; what a fix saves is not among them.
--
-- columns: trace, rank, device
--   op_count             BIGINT   kernels, copies, memsets and graph replays
--   kernel_count         BIGINT   kernels
--   first_ns             BIGINT   start of the first operation
--   last_ns              BIGINT   end of the last operation
--   span_ns              BIGINT   last_ns - first_ns
--   busy_ns              BIGINT   time in which any operation runs
--   idle_ns              BIGINT   span_ns - busy_ns
--   compute_ns           BIGINT   time in which a compute kernel runs
--   comm_ns              BIGINT   time in which a communication kernel runs
--   exposed_comm_ns      BIGINT   part of comm_ns in which no compute kernel runs
--   memcpy_ns            BIGINT   time in which a copy runs
--   exposed_memcpy_ns    BIGINT   part of memcpy_ns in which no kernel runs
--   launch_matched_count BIGINT   operations whose launch call is in the trace
--   busy_share           DOUBLE   busy_ns / span_ns
--   compute_share        DOUBLE   compute_ns / span_ns
WITH times AS (
    SELECT
        trace, device,
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
    trace, rank, device, op_count, kernel_count, times.first_ns, times.last_ns,
    times.last_ns - times.first_ns AS span_ns,
    busy_ns,
    times.last_ns - times.first_ns - busy_ns AS idle_ns,
    compute_ns, comm_ns, exposed_comm_ns, memcpy_ns, exposed_memcpy_ns, launch_matched_count,
    busy_ns / nullif(times.last_ns - times.first_ns, 0) AS busy_share,
    compute_ns / nullif(times.last_ns - times.first_ns, 0) AS compute_share
FROM times
JOIN canonical.traces USING (trace)
JOIN launched USING (trace_id, device)
ORDER BY trace_id, device
