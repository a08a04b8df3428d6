-- One row per trace and device whose GPU also ran work of another process: the GPU's time, and the process's part of it.
--
-- Processes share a GPU one after the other (time slicing) or at once (MPS). Each trace shows its own work alone, and
-- what it shows as idle time may be time in which the GPU computes for another process. Two devices are one GPU where
-- both recordings name it (its UUID, else its bus and host), and two processes share it where the times of their work
-- overlap. Several recordings of one rank are one process. Times are lengths of unions of intervals.
--
-- empty without: canonical.devices WHERE gpu IS NOT NULL GROUP BY gpu HAVING count(*) > 1
-- columns: trace, rank, trace_id
--   device         INTEGER  device, as the trace names it
--   gpu            VARCHAR  identity of the GPU
--   process_count  BIGINT   processes whose work the GPU ran
--   span_ns        BIGINT   from the start of their first operation to the end of their last
--   busy_ns        BIGINT   time in which an operation of any of them runs
--   kernel_ns      BIGINT   time in which a kernel of any of them runs
--   own_busy_ns    BIGINT   time in which an operation of this trace runs
--   own_share      DOUBLE   own_busy_ns / busy_ns; the shares add up to more than 1 where processes run at once
--   overlapped_ns  BIGINT   part of own_busy_ns in which an operation of another process runs, too
WITH spans AS (
    SELECT
        devices.gpu, devices.trace_id, devices.device, recordings.rank_id,
        min(ops.start_ns) AS first_ns,
        max(ops.start_ns + ops.dur_ns) AS last_ns
    FROM canonical.devices AS devices
    JOIN recordings USING (trace_id)
    JOIN canonical.gpu_ops AS ops USING (trace_id, device)
    WHERE devices.gpu IN (SELECT gpu FROM canonical.devices WHERE gpu IS NOT NULL GROUP BY gpu HAVING count(*) > 1)
    GROUP BY ALL
),
places AS (
    SELECT
        spans.gpu, spans.trace_id, spans.device, spans.rank_id, spans.first_ns, spans.last_ns,
        dense_rank() OVER (ORDER BY spans.gpu) AS gpu_key
    FROM spans
    SEMI JOIN spans AS others
        ON others.gpu = spans.gpu
        AND others.rank_id <> spans.rank_id
        AND others.first_ns < spans.last_ns
        AND spans.first_ns < others.last_ns
),
gpus AS (
    SELECT gpu, gpu_key, count(DISTINCT rank_id) AS process_count, max(last_ns) - min(first_ns) AS span_ns
    FROM places
    GROUP BY gpu, gpu_key
),
work AS (
    SELECT
        places.gpu_key, places.rank_id, ops.trace_id, ops.device,
        ops.kind IN ('kernel', 'graph') AS is_kernel,
        ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns
    FROM canonical.gpu_ops AS ops
    JOIN places USING (trace_id, device)
),
of_gpus AS (
    SELECT gpu_key AS key, start_ns, end_ns FROM work
),
kernels_of_gpus AS (
    SELECT gpu_key AS key, start_ns, end_ns FROM work WHERE is_kernel
),
of_traces AS (
    SELECT {'trace_id': trace_id, 'device': device} AS key, start_ns, end_ns FROM work
),
of_others AS (
    SELECT {'trace_id': places.trace_id, 'device': places.device} AS key, work.start_ns, work.end_ns
    FROM places
    JOIN work ON work.gpu_key = places.gpu_key AND work.rank_id <> places.rank_id
),
merged_gpus AS (
    SELECT key AS gpu_key, CAST(sum(end_ns - start_ns) AS BIGINT) AS busy_ns
    FROM interval_merge('of_gpus')
    GROUP BY key
),
merged_kernels AS (
    SELECT key AS gpu_key, CAST(sum(end_ns - start_ns) AS BIGINT) AS kernel_ns
    FROM interval_merge('kernels_of_gpus')
    GROUP BY key
),
merged_traces AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS own_busy_ns
    FROM interval_merge('of_traces')
    GROUP BY key
),
both_work AS (
    SELECT key, CAST(sum(end_ns - start_ns) AS BIGINT) AS overlapped_ns
    FROM interval_intersect('of_traces', 'of_others')
    GROUP BY key
)
SELECT
    traces.trace, traces.rank, places.trace_id, places.device, places.gpu, gpus.process_count, gpus.span_ns,
    merged_gpus.busy_ns,
    coalesce(merged_kernels.kernel_ns, 0) AS kernel_ns,
    merged_traces.own_busy_ns,
    merged_traces.own_busy_ns / nullif(merged_gpus.busy_ns, 0) AS own_share,
    coalesce(both_work.overlapped_ns, 0) AS overlapped_ns
FROM places
JOIN canonical.traces USING (trace_id)
JOIN gpus ON gpus.gpu_key = places.gpu_key
JOIN merged_gpus ON merged_gpus.gpu_key = places.gpu_key
LEFT JOIN merged_kernels ON merged_kernels.gpu_key = places.gpu_key
JOIN merged_traces ON merged_traces.key = {'trace_id': places.trace_id, 'device': places.device}
LEFT JOIN both_work ON both_work.key = {'trace_id': places.trace_id, 'device': places.device}
ORDER BY places.trace_id, places.device
