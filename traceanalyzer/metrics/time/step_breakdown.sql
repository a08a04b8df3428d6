-- One row per trace, device and step: the step's time by activity, as in the TensorBoard plugin.
--
-- Every nanosecond of a step (`tensorboard_steps`) goes to the first of these activities that is going on: kernel,
-- memcpy, memset, communication, runtime, loader, cpu, other. So the columns add up to dur_ns. Communication is
-- communication kernels and the host operators nccl:… and gloo:…; runtime is runtime and driver calls; loader is the
-- framework's own mark around fetching a batch; cpu is any operator, and the optimizer's marks. The time of an activity
-- is not what removing it saves: see host_cause_bounds for that. Differences from the plugin: kernels are communication
-- by their name, and every device has its own rows.
-- Source: torch-tb-profiler 0.4.3, overall_parser.py.
--
-- columns: trace, rank, device
--   step       BIGINT   number of the step; NULL: the trace has no steps
--   name       VARCHAR  as written
--   start_ns   BIGINT   start of the step
--   dur_ns     BIGINT   duration of the step
--   kernel_ns  BIGINT   time in which a kernel runs
--   memcpy_ns  BIGINT   … else a copy runs
--   memset_ns  BIGINT   … else a memset runs
--   comm_ns    BIGINT   … else communication runs
--   runtime_ns BIGINT   … else the host is in a runtime or driver call
--   loader_ns  BIGINT   … else the host waits for the data loader
--   cpu_ns     BIGINT   … else the host is in an operator
--   other_ns   BIGINT   … else nothing of these
WITH steps AS MATERIALIZED (
    FROM tensorboard_steps
),
device_roles AS (
    SELECT
        {
            'trace_id': trace_id,
            'device': device,
            'role': CASE WHEN is_comm THEN 8 WHEN kind = 'memcpy' THEN 2 WHEN kind = 'memset' THEN 4 ELSE 1 END
        } AS key,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM gpu_ops
),
host_roles AS (
    SELECT
        -- One number, because there are many rows and numbers sort faster: the trace above the bits of the role.
        CAST(trace_id AS BIGINT) * 128
            + CASE
                WHEN category IN ('runtime', 'driver') THEN 16
                WHEN name LIKE 'enumerate(DataLoader)#%.__next__' OR name LIKE 'enumerate(DataPipe)#%' THEN 32
                WHEN starts_with(name, 'nccl:') OR starts_with(name, 'gloo:') THEN 8
                ELSE 64
            END AS key,
        start_ns,
        start_ns + dur_ns AS end_ns
    FROM host_slices
    WHERE category IN ('runtime', 'driver')
       OR category = 'cpu_op' AND (op_id IS NULL OR regexp_matches(name, '^(nccl:|gloo:|enumerate\(Data)'))
       OR category = 'annotation' AND regexp_matches(name, '^(nccl:|gloo:|enumerate\(Data|Optimizer\.)')
),
-- One bit per role, so that the sum over all that has started and not ended shows which roles are active.
roles AS (
    SELECT key.trace_id AS trace_id, key.device AS device, key.role AS role, start_ns, end_ns
    FROM interval_merge('device_roles')
    UNION ALL
    SELECT trace_id, devices.device, key % 128, start_ns, end_ns
    FROM interval_merge('host_roles')
    JOIN (SELECT DISTINCT trace_id, device FROM steps) AS devices ON devices.trace_id = key // 128
    UNION ALL
    SELECT trace_id, device, 128, start_ns, start_ns + dur_ns
    FROM steps
    WHERE dur_ns > 0
),
changes AS (
    SELECT trace_id, device, start_ns AS at_ns, role, CASE WHEN role = 128 THEN start_ns END AS step_start_ns
    FROM roles
    UNION ALL
    SELECT trace_id, device, end_ns, -role, NULL
    FROM roles
),
-- Of several changes at one instant, all but the last are followed by no time, so their order does not matter.
stretches AS (
    SELECT
        trace_id, device, at_ns AS start_ns,
        lead(at_ns) OVER timeline - at_ns AS dur_ns,
        CAST(sum(role) OVER timeline AS INTEGER) AS active,
        max(step_start_ns) OVER timeline AS step_start_ns
    FROM changes
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY at_ns ROWS UNBOUNDED PRECEDING)
),
sums AS (
    SELECT
        trace_id, device, step_start_ns AS start_ns,
        sum(dur_ns) FILTER (WHERE active & 1 > 0) AS kernel_ns,
        sum(dur_ns) FILTER (WHERE active & 3 = 2) AS memcpy_ns,
        sum(dur_ns) FILTER (WHERE active & 7 = 4) AS memset_ns,
        sum(dur_ns) FILTER (WHERE active & 15 = 8) AS comm_ns,
        sum(dur_ns) FILTER (WHERE active & 31 = 16) AS runtime_ns,
        sum(dur_ns) FILTER (WHERE active & 63 = 32) AS loader_ns,
        sum(dur_ns) FILTER (WHERE active & 127 = 64) AS cpu_ns,
        sum(dur_ns) FILTER (WHERE active & 127 = 0) AS other_ns
    FROM stretches
    WHERE active & 128 > 0
    GROUP BY trace_id, device, step_start_ns
)
SELECT
    trace, rank, steps.device, step, name, steps.start_ns, dur_ns,
    CAST(coalesce(kernel_ns, 0) AS BIGINT) AS kernel_ns,
    CAST(coalesce(memcpy_ns, 0) AS BIGINT) AS memcpy_ns,
    CAST(coalesce(memset_ns, 0) AS BIGINT) AS memset_ns,
    CAST(coalesce(comm_ns, 0) AS BIGINT) AS comm_ns,
    CAST(coalesce(runtime_ns, 0) AS BIGINT) AS runtime_ns,
    CAST(coalesce(loader_ns, 0) AS BIGINT) AS loader_ns,
    CAST(coalesce(cpu_ns, 0) AS BIGINT) AS cpu_ns,
    CAST(coalesce(other_ns, 0) AS BIGINT) AS other_ns
FROM steps
-- A step of no length starts where the next step starts, and holds none of its time.
LEFT JOIN sums
       ON sums.trace_id = steps.trace_id
      AND sums.device = steps.device
      AND sums.start_ns = steps.start_ns
      AND steps.dur_ns > 0
ORDER BY steps.trace_id, steps.device, steps.start_ns, step
