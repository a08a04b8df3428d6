-- The host slices behind each piece of GPU work, in the order of `gpu_sorted`. The launching call has the same correlation
-- id; the operator is the innermost around the call, else it has the external id: profilers of 2023 number operators
-- twice, and an external id may name one that runs at another time. Annotation and Python frame lie around the call, else
-- around the operator. A plain launch call launches one kernel: an id that several operations have in common with it (ROCm)
-- proves nothing, nor does their external id, which the profiler found by it; nor an id that calls have in common which were
-- made one after the other, or operators of which none contains the others; nor, of work whose call is missing, an external
-- id that is the correlation id, as all are of profilers of 2022. With $launches_later, another thread may launch
-- an operator's work after the operator. The first call and the innermost slice are aggregated as one number of fixed size
-- (time or depth, then the id): states of fixed size can spill to disk, rows cannot.
WITH recorded AS (
    SELECT
        event_id,
        coalesce(tracks.device, gpu.device) AS device,
        stream, start_ns, correlation, external_id, kind, grid_x, grid_y, grid_z, block_x, block_y, block_z,
        hash(stream, start_ns, name) AS work
    FROM read_parquet($gpu) AS gpu
    LEFT JOIN device_tracks AS tracks ON tracks.pid = gpu.track_pid
    WHERE NOT (start_ns = 0 AND $drop_zero)
),
shared AS (
    SELECT correlation
    FROM recorded
    WHERE correlation IS NOT NULL
    GROUP BY correlation
    HAVING min(work) <> max(work)
),
-- The calls of the work: of fixed size but for names, so that they can spill to disk.
launches AS MATERIALIZED (
    SELECT slice_id, correlation, start_ns, dur_ns, name, raw_category, op_id, annotation_id, python_id
    FROM read_parquet($slices)
    WHERE category IN ('runtime', 'driver') AND correlation IN (SELECT correlation FROM recorded)
),
plain_launches AS (
    SELECT DISTINCT correlation
    FROM launches
    WHERE correlation IN (SELECT correlation FROM shared) AND is_plain_launch(name)
),
-- Ranks number their launches alike: where their processes lie in one file, an id that several use proves nothing.
ambiguous AS (
    SELECT correlation
    FROM read_parquet($slices)
    JOIN threads USING (thread_id)
    WHERE $several_processes
        AND category IN ('runtime', 'driver')
        AND correlation IN (SELECT correlation FROM recorded)
    GROUP BY correlation
    HAVING min(pid) <> max(pid) OR count(DISTINCT start_ns) > count(DISTINCT name)
),
grouped_calls AS (
    SELECT
        correlation,
        CAST(min(CAST(start_ns AS HUGEINT) * 1099511627776 + slice_id) & 1099511627775 AS BIGINT) AS slice_id,
        max(start_ns) > min(start_ns + dur_ns) AND (min(hash(name)) = max(hash(name)) OR count(*) > 4) AS is_shared
    FROM launches
    GROUP BY correlation
),
unproven AS (
    SELECT correlation FROM plain_launches
    UNION
    SELECT correlation FROM ambiguous
    UNION
    SELECT correlation FROM grouped_calls WHERE is_shared
),
ops AS (
    SELECT
        event_id, device, stream, start_ns, kind, grid_x, grid_y, grid_z, block_x, block_y, block_z,
        CASE WHEN unproven.correlation IS NULL THEN recorded.correlation END AS correlation,
        CASE
            WHEN unproven.correlation IS NOT NULL OR $several_processes THEN NULL
            WHEN external_id = recorded.correlation AND called.correlation IS NULL
                AND event_id >> 32 IN (SELECT slice_id >> 32 FROM grouped_calls)
            THEN NULL
            ELSE external_id
        END AS external_id
    FROM recorded
    LEFT JOIN unproven ON unproven.correlation = recorded.correlation
    LEFT JOIN grouped_calls AS called ON called.correlation = recorded.correlation
),
calls AS (
    SELECT
        grouped_calls.correlation, slice_id, start_ns, op_id, annotation_id, python_id,
        -- HIP takes the grid of these in threads, and Kineto writes it so.
        raw_category = 'cuda_runtime' AND name IN ('hipExtModuleLaunchKernel', 'hipHccModuleLaunchKernel') AS counts_threads
    FROM launches
    JOIN grouped_calls USING (slice_id)
),
innermost AS (
    SELECT
        external_id,
        CASE
            WHEN max(start_ns + dur_ns) FILTER (WHERE category = 'cpu_op') - min(start_ns) FILTER (WHERE category = 'cpu_op')
                <= max(dur_ns) FILTER (WHERE category = 'cpu_op') + $rounding_ns
            THEN max(depth * 1099511627776 + slice_id) FILTER (WHERE category = 'cpu_op') & 1099511627775
        END AS op_id,
        max(depth * 1099511627776 + slice_id) FILTER (WHERE category = 'annotation') & 1099511627775 AS annotation_id
    FROM read_parquet($slices)
    WHERE category IN ('cpu_op', 'annotation') AND external_id IN (SELECT external_id FROM ops WHERE external_id > 0)
    GROUP BY external_id
),
operators AS (
    SELECT
        innermost.external_id, slice_id, start_ns,
        start_ns + dur_ns AS end_ns,
        slices.annotation_id, slices.python_id
    FROM read_parquet($slices) AS slices
    JOIN innermost ON innermost.op_id = slices.slice_id
    WHERE category = 'cpu_op'
),
-- Kernels without an id (RCCL's) are those of the launch calls in their operator that no other work names, one by one.
nameless AS (
    SELECT
        event_id, ops.start_ns, innermost.op_id,
        row_number() OVER (PARTITION BY innermost.op_id ORDER BY ops.start_ns, event_id) AS place,
        count(*) OVER (PARTITION BY innermost.op_id) AS kernel_count
    FROM ops
    JOIN innermost ON innermost.external_id = ops.external_id
    WHERE correlation IS NULL AND kind = 'kernel' AND innermost.op_id IS NOT NULL
),
unclaimed AS (
    SELECT
        slice_id, start_ns, op_id, annotation_id, python_id,
        row_number() OVER (PARTITION BY op_id ORDER BY start_ns, slice_id) AS place,
        count(*) OVER (PARTITION BY op_id) AS call_count
    FROM read_parquet($slices)
    WHERE category IN ('runtime', 'driver')
        AND op_id IN (SELECT op_id FROM nameless)
        AND is_plain_launch(name)
        AND (correlation IS NULL OR correlation NOT IN (SELECT correlation FROM recorded WHERE correlation IS NOT NULL))
),
own_calls AS (
    SELECT nameless.event_id, unclaimed.slice_id, unclaimed.annotation_id, unclaimed.python_id
    FROM nameless
    JOIN unclaimed ON unclaimed.op_id = nameless.op_id
                  AND unclaimed.place = nameless.place
                  AND unclaimed.call_count = nameless.kernel_count
                  AND unclaimed.start_ns <= nameless.start_ns + $base_ns
)
SELECT
    coalesce(calls.slice_id, own_calls.slice_id) AS launch_id,
    coalesce(calls.op_id, operators.slice_id) AS cpu_op_id,
    coalesce(calls.annotation_id, own_calls.annotation_id, operators.annotation_id, innermost.annotation_id)
        AS annotation_id,
    coalesce(calls.python_id, own_calls.python_id, operators.python_id) AS python_id,
    CASE
        WHEN coalesce(calls.op_id, operators.slice_id) = operators.slice_id THEN 'external_id'
        WHEN calls.op_id IS NOT NULL THEN 'nesting'
    END AS link_source,
    in_blocks(ops.grid_x, ops.block_x, counts_threads) AS grid_x,
    in_blocks(ops.grid_y, ops.block_y, counts_threads) AS grid_y,
    in_blocks(ops.grid_z, ops.block_z, counts_threads) AS grid_z
FROM ops
LEFT JOIN calls ON calls.correlation = ops.correlation
LEFT JOIN innermost ON innermost.external_id = ops.external_id
LEFT JOIN operators
       ON operators.external_id = ops.external_id
      AND ($launches_later OR coalesce(calls.start_ns BETWEEN operators.start_ns AND operators.end_ns, TRUE))
LEFT JOIN own_calls ON own_calls.event_id = ops.event_id
ORDER BY ops.device, ops.stream, ops.start_ns, ops.event_id;
