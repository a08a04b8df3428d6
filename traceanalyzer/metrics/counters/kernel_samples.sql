-- One row per kernel and hardware counter that was sampled often enough while the kernel ran: the mean of its samples.
--
-- PyTorch's profiler (PM sampling, 2026) and Nsight Systems (`--gpu-metrics-devices`) read counters of a device in equal
-- intervals, whatever runs there. Samples between the start and the end of a kernel are its own; while several kernels
-- run at once, they are all of theirs. Fewer than ten samples say little about a kernel, and are left out. Nsight Systems
-- numbers the devices of the machine, which are others than a program's where CUDA_VISIBLE_DEVICES hides some.
--
-- columns: trace, rank, trace_id, device
--   op_id         BIGINT   the kernel (gpu_ops.op_id)
--   name          VARCHAR  kernel, as written
--   counter       VARCHAR  counter as written, with its series where it has several
--   sample_count  BIGINT   samples while the kernel ran, at least 10
--   mean_value    DOUBLE   mean of these samples
--   min_value     DOUBLE   least of them
--   max_value     DOUBLE   largest of them
WITH samples AS (
    SELECT
        trace_id,
        -- Kineto has a process 'GPU 0 Counters', Nsight Systems a series 'GPU 0'.
        regexp_extract(coalesce(pid, series), '^GPU (\d+)', 1)::INTEGER AS device,
        CASE WHEN pid IS NULL OR series IN ('', 'value') THEN name ELSE name || ': ' || series END AS counter,
        start_ns, value
    FROM canonical.counters
    WHERE value IS NOT NULL AND regexp_full_match(coalesce(pid, series), 'GPU \d{1,4}( Counters)?')
),
kernels AS (
    SELECT trace_id, device, op_id, name, start_ns, start_ns + dur_ns AS end_ns
    FROM gpu_ops
    WHERE kind = 'kernel' AND trace_id IN (SELECT trace_id FROM samples)
),
sampled AS (
    SELECT
        kernels.trace_id, kernels.device, kernels.op_id,
        any_value(kernels.name) AS name,
        samples.counter,
        count(*) AS sample_count,
        avg(samples.value) AS mean_value,
        min(samples.value) AS min_value,
        max(samples.value) AS max_value
    FROM kernels
    JOIN samples
      ON samples.trace_id = kernels.trace_id
     AND samples.device = kernels.device
     AND samples.start_ns >= kernels.start_ns
     AND samples.start_ns < kernels.end_ns
    GROUP BY kernels.trace_id, kernels.device, kernels.op_id, samples.counter
)
SELECT
    traces.trace, traces.rank, sampled.trace_id, sampled.device, sampled.op_id, sampled.name, sampled.counter,
    sampled.sample_count, sampled.mean_value, sampled.min_value, sampled.max_value
FROM sampled
JOIN canonical.traces AS traces USING (trace_id)
WHERE sampled.sample_count >= 10
ORDER BY sampled.trace_id, sampled.device, sampled.op_id, sampled.counter
