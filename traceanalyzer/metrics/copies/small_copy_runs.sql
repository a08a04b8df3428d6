-- One row per small copy that the host launches right after another one of the same direction.
--
-- A run is a sequence of copies of at most 64 KiB each, between host and device or within the device, that the host
-- launches with no other work for this device in between. Up to this size a copy takes about as long as a copy of
-- nothing, so one copy could carry the run. Copies that the host waits for are values to keep on one side, which other
-- rules report, up to 1 KiB and in PyTorch: they belong to no run. Where the size was not recorded, as of the
-- copies of a graph in AMD's RPD, a copy of at most 6 µs counts as small. Copies that stand alone have no row.
--
-- empty without: gpu_ops WHERE copy_kind IN ('HtoD', 'DtoH', 'DtoD') AND coalesce(size_bytes <= 65536, dur_ns <= 6000)
-- columns: trace, rank, trace_id, device
--   op_id       BIGINT   the copy (gpu_ops.op_id)
--   copy_kind   VARCHAR  HtoD, DtoH or DtoD
--   size_bytes  BIGINT   bytes copied; NULL: not recorded
--   start_ns    BIGINT   start of the copy on the device
--   run         BIGINT   op_id of the run's first copy
--   place       BIGINT   place of the copy in its run, from 1
--   run_copies  BIGINT   copies in the run
WITH small AS (
    SELECT trace_id, op_id
    FROM gpu_ops
    WHERE copy_kind IN ('HtoD', 'DtoH', 'DtoD') AND coalesce(size_bytes <= 65536, dur_ns <= 6000)
),
waited AS (
    SELECT DISTINCT host_waits.trace_id, host_waits.wait_id, programs.is_pytorch
    FROM host_waits
    JOIN programs USING (trace_id)
),
launched AS (
    SELECT
        ops.trace_id, ops.device, ops.op_id, ops.size_bytes, ops.start_ns, calls.start_ns AS called_ns,
        CASE
            WHEN small.op_id IS NOT NULL AND (waited.wait_id IS NULL OR ops.size_bytes > 1024 AND NOT waited.is_pytorch)
            THEN ops.copy_kind
        END AS small_kind
    FROM gpu_ops AS ops
    JOIN launching_slices AS calls ON calls.trace_id = ops.trace_id AND calls.slice_id = ops.launch_id
    LEFT JOIN waited ON waited.trace_id = ops.trace_id AND waited.wait_id = coalesce(ops.cpu_op_id, ops.launch_id)
    LEFT JOIN small
           ON small.trace_id = ops.trace_id AND small.op_id = ops.op_id
    -- Programs with few such copies have no runs that matter.
    WHERE (ops.trace_id, ops.device) IN (
        SELECT (trace_id, device)
        FROM gpu_ops
        SEMI JOIN small USING (trace_id, op_id)
    )
),
ordered AS (
    SELECT
        *,
        coalesce(small_kind = lag(small_kind) OVER (PARTITION BY trace_id, device ORDER BY called_ns, op_id), FALSE) AS continues
    FROM launched
),
runs AS (
    SELECT
        *,
        max(CASE WHEN continues THEN NULL ELSE struct_pack(called_ns, op_id) END) OVER (
            PARTITION BY trace_id, device
            ORDER BY called_ns, op_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW
        ) AS first
    FROM ordered
    WHERE small_kind IS NOT NULL
),
counted_runs AS (
    SELECT
        *,
        row_number() OVER (PARTITION BY trace_id, device, first ORDER BY called_ns, op_id) AS place,
        count(*) OVER (PARTITION BY trace_id, device, first) AS run_copies
    FROM runs
)
SELECT
    traces.trace, traces.rank, counted_runs.trace_id, counted_runs.device, counted_runs.op_id,
    counted_runs.small_kind AS copy_kind, counted_runs.size_bytes, counted_runs.start_ns,
    counted_runs.first.op_id AS run,
    counted_runs.place, counted_runs.run_copies
FROM counted_runs
JOIN canonical.traces AS traces USING (trace_id)
WHERE counted_runs.run_copies >= 2
