-- One row per device with GPU work: bounds of the share of its peak rate that it reached over its analysis window.
--
-- Model FLOPs utilisation (MFU): the time that the model's products, convolutions and attention would take at peak rate, each
-- at the peak of its type, over the wall time of the steps (the analysis window). Hardware FLOPs utilisation (HFU) counts
-- what activation checkpointing computes again, too. Lower and upper bound differ where the mask of an attention was not
-- recorded: causal or full. On a TPU operations and peak are those that XLA wrote, over all of the trace. What utilisation
-- calls covered is other: work without such operations (copies, communication, norms, optimizers) is known here.
--
-- columns: trace, rank, trace_id, device
--   wall_ns      BIGINT   length of the analysis window, on a TPU of the whole trace
--   mfu_least    DOUBLE   lower bound; NULL: unknown, see reason
--   mfu_most     DOUBLE   upper bound
--   hfu_least    DOUBLE   lower bound with what is computed again
--   hfu_most     DOUBLE   upper bound
--   known_share  DOUBLE   of the time of GPU operations: that of operations with known FLOPs, or none
--   reason       VARCHAR  why nothing is known: no products (no matmul, convolution or attention whose FLOPs follow from
--                         its arguments), no FLOPs (XLA wrote none on a TPU), unknown peak (of the device, or of the types
--                         of all products), unknown work (less than half of the time of GPU operations is known), or above
--                         peak (more than the device can do: it, its clock or a type is not what is assumed); NULL: it is
--                         known
WITH placed AS MATERIALIZED (
    SELECT
        ops.trace_id, ops.device, ops.op_id, ops.start_ns, ops.dur_ns,
        ops.is_comm OR ops.kind IN ('memcpy', 'memset') AS has_no_flops,
        owned.slice_id
    FROM canonical.gpu_ops AS ops
    JOIN (FROM gpu_op_steps WHERE kept) AS kept USING (trace_id, op_id)
    LEFT JOIN modelled_ops AS owned ON owned.trace_id = ops.trace_id AND owned.op_id = ops.op_id
    WHERE ops.kind <> 'op'
),
calls AS MATERIALIZED (
    SELECT
        floors.trace_id, floors.slice_id, floors.device,
        floors.family IN ('matrix', 'convolution', 'attention') AS has_flops,
        has_flops AND coalesce(floors.flops_most > 0, FALSE) AND floors.peak_tflops IS NULL AS has_no_peak,
        floors.family = 'paged attention' OR (has_flops AND floors.flops_most IS NULL) OR has_no_peak AS is_unknown,
        floors.flops_least / nullif(floors.peak_tflops, 0) / 1000 AS hardware_least_ns,
        floors.flops_most / nullif(floors.peak_tflops, 0) / 1000 AS hardware_most_ns,
        floors.model_flops_least / nullif(floors.peak_tflops, 0) / 1000 AS model_least_ns,
        floors.model_flops_most / nullif(floors.peak_tflops, 0) / 1000 AS model_most_ns
    FROM operator_floors AS floors
    SEMI JOIN placed ON placed.trace_id = floors.trace_id AND placed.slice_id = floors.slice_id
),
products AS (
    SELECT
        trace_id, device,
        bool_or(has_no_peak) AS has_no_peak,
        sum(hardware_least_ns ORDER BY hardware_least_ns) AS hardware_least_ns,
        sum(hardware_most_ns ORDER BY hardware_most_ns) AS hardware_most_ns,
        sum(model_least_ns ORDER BY model_least_ns) AS model_least_ns,
        sum(model_most_ns ORDER BY model_most_ns) AS model_most_ns
    FROM calls
    WHERE has_flops AND (has_no_peak OR NOT is_unknown)
    GROUP BY trace_id, device
),
known AS (
    SELECT
        placed.trace_id, placed.device,
        coalesce(
            sum(placed.dur_ns) FILTER (WHERE placed.has_no_flops OR NOT coalesce(calls.is_unknown, TRUE)), 0
        ) / nullif(sum(placed.dur_ns), 0) AS known_share
    FROM placed
    LEFT JOIN calls ON calls.trace_id = placed.trace_id AND calls.slice_id = placed.slice_id
    GROUP BY placed.trace_id, placed.device
),
tpu_peaks AS (
    SELECT
        trace_id,
        CAST(regexp_extract(key, '^/device:TPU:(\d+) ', 1) AS INTEGER) AS device,
        max(TRY_CAST(value AS DOUBLE)) AS tflops
    FROM canonical.metadata
    WHERE regexp_matches(key, '^/device:TPU:\d{1,6} peak_teraflops_per_second$')
    GROUP BY ALL
),
-- A loop or call has what is inside.
tpu_work AS (
    SELECT
        ops.trace_id, ops.device,
        max(ops.start_ns + ops.dur_ns) - min(ops.start_ns) AS wall_ns,
        sum(TRY_CAST(json_extract_string(args.args, '$.flops') AS DOUBLE)) FILTER (WHERE ops.self_ns IS NULL) AS flops,
        sum(TRY_CAST(coalesce(json_extract_string(args.args, '$.model_flops'), json_extract_string(args.args, '$.flops')) AS DOUBLE))
            FILTER (WHERE ops.self_ns IS NULL) AS model_flops
    FROM canonical.gpu_ops AS ops
    LEFT JOIN canonical.event_args AS args ON args.trace_id = ops.trace_id AND args.event_id = ops.op_id
    WHERE ops.kind = 'op'
    GROUP BY ops.trace_id, ops.device
),
times AS (
    SELECT
        known.trace_id, known.device,
        windows.end_ns - windows.start_ns AS wall_ns,
        CASE
            WHEN coalesce(products.hardware_most_ns, 0) = 0
            THEN if(products.has_no_peak, 'unknown peak', 'no products')
            WHEN coalesce(known.known_share, 0) < 0.5 THEN 'unknown work'
            WHEN products.hardware_least_ns > windows.end_ns - windows.start_ns THEN 'above peak'
        END AS reason,
        known.known_share, products.model_least_ns, products.model_most_ns, products.hardware_least_ns,
        products.hardware_most_ns
    FROM known
    JOIN attribution.windows AS windows USING (trace_id, device)
    LEFT JOIN products USING (trace_id, device)
    UNION ALL
    SELECT
        tpu_work.trace_id, tpu_work.device, tpu_work.wall_ns,
        CASE
            WHEN coalesce(tpu_work.flops, 0) = 0 THEN 'no FLOPs'
            WHEN coalesce(tpu_peaks.tflops, 0) = 0 THEN 'unknown peak'
            WHEN tpu_work.flops / tpu_peaks.tflops / 1000 > tpu_work.wall_ns THEN 'above peak'
        END,
        1,
        tpu_work.model_flops / tpu_peaks.tflops / 1000,
        tpu_work.model_flops / tpu_peaks.tflops / 1000,
        tpu_work.flops / tpu_peaks.tflops / 1000,
        tpu_work.flops / tpu_peaks.tflops / 1000
    FROM tpu_work
    LEFT JOIN tpu_peaks USING (trace_id, device)
)
SELECT
    traces.trace, traces.rank, times.trace_id, times.device, times.wall_ns,
    CASE WHEN times.reason IS NULL THEN times.model_least_ns / nullif(times.wall_ns, 0) END AS mfu_least,
    CASE WHEN times.reason IS NULL THEN times.model_most_ns / nullif(times.wall_ns, 0) END AS mfu_most,
    CASE WHEN times.reason IS NULL THEN times.hardware_least_ns / nullif(times.wall_ns, 0) END AS hfu_least,
    CASE WHEN times.reason IS NULL THEN times.hardware_most_ns / nullif(times.wall_ns, 0) END AS hfu_most,
    times.known_share, times.reason
FROM times
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY times.trace_id, times.device
