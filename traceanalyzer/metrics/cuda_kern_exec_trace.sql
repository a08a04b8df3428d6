-- One row per kernel whose launching call is in the trace: the call, the wait in the queue, and the run.
--
-- Defined as NVIDIA's kernel execution report: the queue time runs from the end of the call to the start of the kernel,
-- and is NULL where the kernel started before the call returned; the total runs from the call's start to the later of
-- both ends. A long queue time is healthy, the host is ahead; a short one before every kernel, with gaps between them,
-- means that the host cannot keep up. The kernels of one graph launch share its call. Other than NVIDIA's: a call that
-- the profiler wrote twice, with its backtrace, gives one row.
--
-- columns:
--   trace           VARCHAR  name of the trace
--   rank            INTEGER  rank in the job
--   device          INTEGER  device
--   pid             VARCHAR  process of the call
--   tid             VARCHAR  thread of the call
--   api             VARCHAR  call
--   name            VARCHAR  kernel, as written
--   op_id           BIGINT   the kernel (gpu_ops.op_id)
--   launch_id       BIGINT   the call (host_slices.slice_id)
--   api_start_ns    BIGINT   start of the call
--   api_ns          BIGINT   duration of the call
--   queue_ns        BIGINT   end of the call to the start of the kernel, where that is not negative
--   kernel_start_ns BIGINT   start of the kernel
--   kernel_ns       BIGINT   duration of the kernel
--   total_ns        BIGINT   start of the call to the later of both ends
SELECT
    launches.trace,
    launches.rank,
    kernel.device,
    pid,
    tid,
    regexp_replace(api, '_v\d{4}$', '') AS api,
    kernel.name,
    kernel.op_id,
    kernel.launch_id,
    launches.start_ns AS api_start_ns,
    api_ns,
    CASE
        WHEN kernel.start_ns >= launches.start_ns + api_ns THEN kernel.start_ns - launches.start_ns - api_ns
    END AS queue_ns,
    kernel.start_ns AS kernel_start_ns,
    kernel.dur_ns AS kernel_ns,
    greatest(kernel.start_ns + kernel.dur_ns, launches.start_ns + api_ns) - launches.start_ns AS total_ns
FROM gpu_ops AS kernel
JOIN launches USING (trace_id, device, launch_id)
JOIN threads USING (trace_id, thread_id)
WHERE kind = 'kernel'
ORDER BY trace_id, kernel.start_ns, kernel.op_id
