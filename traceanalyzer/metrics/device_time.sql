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
WITH ops AS (
    SELECT
        {'trace_id': trace_id, 'device': device} AS key,
        start_ns,
        start_ns + dur_ns AS end_ns,
        kind IN ('kernel', 'graph') AS is_kernel,
        is_comm,
        kind = 'memcpy' AS is_copy
    FROM gpu_ops
),
compute AS (
    SELECT key, start_ns, end_ns FROM ops WHERE is_kernel AND NOT is_comm
),
comm AS (
    SELECT key, start_ns, end_ns FROM ops WHERE is_comm
),
copy AS (
    SELECT key, start_ns, end_ns FROM ops WHERE is_copy
),
kernel AS (
    SELECT key, start_ns, end_ns FROM ops WHERE is_kernel
),
lengths AS (
    SELECT key, 'busy' AS what, end_ns - start_ns AS dur_ns FROM interval_merge('ops')
    UNION ALL
    SELECT key, 'compute', end_ns - start_ns FROM interval_merge('compute')
    UNION ALL
    SELECT key, 'comm', end_ns - start_ns FROM interval_merge('comm')
    UNION ALL
    SELECT key, 'memcpy', end_ns - start_ns FROM interval_merge('copy')
    UNION ALL
    SELECT key, 'exposed_comm', end_ns - start_ns FROM interval_subtract('comm', 'compute')
    UNION ALL
    SELECT key, 'exposed_memcpy', end_ns - start_ns FROM interval_subtract('copy', 'kernel')
),
unions AS (
    SELECT
        key.trace_id AS trace_id,
        key.device AS device,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'busy'), 0) AS BIGINT) AS busy_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'compute'), 0) AS BIGINT) AS compute_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'comm'), 0) AS BIGINT) AS comm_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'exposed_comm'), 0) AS BIGINT) AS exposed_comm_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'memcpy'), 0) AS BIGINT) AS memcpy_ns,
        CAST(coalesce(sum(dur_ns) FILTER (WHERE what = 'exposed_memcpy'), 0) AS BIGINT) AS exposed_memcpy_ns
    FROM lengths
    GROUP BY key
),
spans AS (
    SELECT
        trace_id,
        device,
        count(*) AS op_count,
        count(*) FILTER (WHERE kind = 'kernel') AS kernel_count,
        min(start_ns) AS first_ns,
        max(start_ns + dur_ns) AS last_ns,
        count(launch_id) AS launch_matched_count
    FROM gpu_ops
    GROUP BY trace_id, device
)
SELECT
    trace,
    rank,
    device,
    op_count,
    kernel_count,
    spans.first_ns,
    spans.last_ns,
    spans.last_ns - spans.first_ns AS span_ns,
    coalesce(busy_ns, 0) AS busy_ns,
    spans.last_ns - spans.first_ns - coalesce(busy_ns, 0) AS idle_ns,
    coalesce(compute_ns, 0) AS compute_ns,
    coalesce(comm_ns, 0) AS comm_ns,
    coalesce(exposed_comm_ns, 0) AS exposed_comm_ns,
    coalesce(memcpy_ns, 0) AS memcpy_ns,
    coalesce(exposed_memcpy_ns, 0) AS exposed_memcpy_ns,
    launch_matched_count,
    coalesce(busy_ns, 0) / nullif(spans.last_ns - spans.first_ns, 0) AS busy_share,
    coalesce(compute_ns, 0) / nullif(spans.last_ns - spans.first_ns, 0) AS compute_share
FROM spans
JOIN canonical.traces USING (trace_id)
LEFT JOIN unions USING (trace_id, device)
ORDER BY trace_id, device
