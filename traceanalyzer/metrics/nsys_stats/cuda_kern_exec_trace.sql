-- One row per kernel whose launch call is in the trace: the call, the wait in the queue, and the kernel itself.
--
-- Times are defined as in NVIDIA's kernel execution report. The queue time runs from the end of the call to the start
-- of the kernel; it is NULL where the kernel started before the call returned. The total runs from the start of the
-- call to the end of the call or of the kernel, whichever is later. A long queue time is healthy, because the host is
-- ahead. A short one before every kernel, with gaps between kernels, means that the host cannot keep up. The kernels of
-- one graph launch share its call. One difference from NVIDIA's report: a call that the profiler wrote twice, with its
-- backtrace, gives one row.
--
-- columns: trace, rank, device
--   pid             VARCHAR  process of the call
--   tid             VARCHAR  thread of the call
--   api             VARCHAR  call
--   name            VARCHAR  kernel, as written
--   op_id           BIGINT   the kernel (gpu_ops.op_id)
--   launch_id       BIGINT   the call (host_slices.slice_id)
--   api_start_ns    BIGINT   start of the call
--   api_ns          BIGINT   duration of the call
--   queue_ns        BIGINT   end of the call to the start of the kernel; NULL: the kernel started before the call
--                            returned
--   kernel_start_ns BIGINT   start of the kernel
--   kernel_ns       BIGINT   duration of the kernel
--   total_ns        BIGINT   start of the call to the end of the call or of the kernel, whichever is later
SELECT
    launches.trace, launches.rank, kernel.device, pid, tid,
    regexp_replace(api, '_v\d{4}$', '') AS api,
    kernel.name, kernel.op_id, kernel.launch_id, launches.start_ns AS api_start_ns, api_ns,
    CASE
        WHEN kernel.start_ns >= launches.start_ns + api_ns THEN kernel.start_ns - launches.start_ns - api_ns
    END AS queue_ns,
    kernel.start_ns AS kernel_start_ns, kernel.dur_ns AS kernel_ns,
    greatest(kernel.start_ns + kernel.dur_ns, launches.start_ns + api_ns) - launches.start_ns AS total_ns
FROM gpu_ops AS kernel
JOIN launches USING (trace_id, device, launch_id)
JOIN threads USING (trace_id, thread_id)
WHERE kind = 'kernel'
ORDER BY trace_id, kernel.start_ns, kernel.op_id
