-- One row per trace, device and operation of a compiled program (XLA), in all of the trace.
--
-- Operations and bytes are those that XLA wrote beside the operation; peaks are those that the profile gives for its own
-- device (TPU). Without these, as on GPUs, rates or shares are NULL. A wait for a copy and a collective have no
-- share of a roof: what they move goes through neither the arithmetic units nor the memory alone. What XLA writes beside a
-- loop or call is of one pass through what is inside, which has rows of its own: flops, model_flops and bytes are NULL there.
--
-- columns: trace, rank, device
--   name             VARCHAR  operation of the program
--   category         VARCHAR  XLA's category: loop fusion, convolution, copy-done, all-reduce …; NULL: not recorded
--   call_count       BIGINT   runs
--   sum_ns           BIGINT   time, without that of operations inside it
--   time_share       DOUBLE   of the time of all operations of the device
--   flops            DOUBLE   floating-point operations of all runs
--   model_flops      DOUBLE   those that the program asks for, without what the compiler repeats
--   bytes            DOUBLE   bytes that it reads and writes
--   flops_per_s      DOUBLE   rate of operations
--   bytes_per_s      DOUBLE   rate of bytes
--   flops_share      DOUBLE   flops_per_s / the device's peak
--   bytes_share      DOUBLE   bytes_per_s / the peak of the device's memory
--   limited_by       VARCHAR  which of both takes longer at its peak: compute or memory
--   floor_ns         DOUBLE   the time that this takes
--   headroom_ns      DOUBLE   sum_ns - floor_ns
WITH written AS (
    SELECT
        ops.trace_id, ops.device, ops.hlo_op,
        ops.copy_kind IS NOT NULL OR ops.is_comm AS is_wait,
        ops.self_ns IS NULL AS is_leaf,
        coalesce(ops.self_ns, ops.dur_ns) AS own_ns,
        json_extract_string(args.args, '$.hlo_category') AS category,
        TRY_CAST(json_extract_string(args.args, '$.flops') AS DOUBLE) AS flops,
        TRY_CAST(json_extract_string(args.args, '$.model_flops') AS DOUBLE) AS model_flops,
        TRY_CAST(json_extract_string(args.args, '$.bytes_accessed') AS DOUBLE) AS bytes
    FROM canonical.gpu_ops AS ops
    LEFT JOIN canonical.event_args AS args ON args.trace_id = ops.trace_id AND args.event_id = ops.op_id
    WHERE ops.hlo_op IS NOT NULL
),
peaks AS (
    SELECT
        trace_id,
        CAST(regexp_extract(key, '^/device:TPU:(\d+) ', 1) AS INTEGER) AS device,
        max(TRY_CAST(value AS DOUBLE)) FILTER (WHERE key LIKE '% peak_teraflops_per_second') * 1e12 AS flops_per_s,
        max(TRY_CAST(value AS DOUBLE)) FILTER (WHERE key LIKE '% peak_hbm_bw_gigabytes_per_second') * 1e9 AS bytes_per_s
    FROM canonical.metadata
    WHERE regexp_matches(key, '^/device:TPU:\d{1,6} peak_(teraflops_per_second|hbm_bw_gigabytes_per_second)$')
    GROUP BY ALL
),
summed AS (
    SELECT
        trace_id, device, hlo_op AS name, category,
        bool_or(is_wait) AS is_wait,
        count(*) AS call_count,
        CAST(sum(own_ns) AS BIGINT) AS sum_ns,
        sum(flops) FILTER (WHERE is_leaf) AS flops,
        sum(model_flops) FILTER (WHERE is_leaf) AS model_flops,
        sum(bytes) FILTER (WHERE is_leaf) AS bytes
    FROM written
    GROUP BY trace_id, device, hlo_op, category
),
roofs AS (
    SELECT
        summed.*,
        1e9 * summed.flops / nullif(summed.sum_ns, 0) AS flops_rate,
        1e9 * summed.bytes / nullif(summed.sum_ns, 0) AS bytes_rate,
        CASE WHEN NOT summed.is_wait THEN nullif(peaks.flops_per_s, 0) END AS peak_flops,
        CASE WHEN NOT summed.is_wait THEN nullif(peaks.bytes_per_s, 0) END AS peak_bytes
    FROM summed
    LEFT JOIN peaks USING (trace_id, device)
)
SELECT
    traces.trace, traces.rank, roofs.device, roofs.name, roofs.category, roofs.call_count, roofs.sum_ns,
    roofs.sum_ns / nullif(sum(roofs.sum_ns) OVER (PARTITION BY roofs.trace_id, roofs.device), 0) AS time_share,
    roofs.flops, roofs.model_flops, roofs.bytes, roofs.flops_rate AS flops_per_s,
    roofs.bytes_rate AS bytes_per_s,
    roofs.flops_rate / roofs.peak_flops AS flops_share,
    roofs.bytes_rate / roofs.peak_bytes AS bytes_share,
    CASE
        WHEN flops_share IS NULL OR bytes_share IS NULL OR greatest(flops_share, bytes_share) = 0 THEN NULL
        WHEN flops_share > bytes_share THEN 'compute'
        ELSE 'memory'
    END AS limited_by,
    1e9 * greatest(roofs.flops / roofs.peak_flops, roofs.bytes / roofs.peak_bytes) AS floor_ns,
    roofs.sum_ns - floor_ns AS headroom_ns
FROM roofs
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY roofs.trace_id, roofs.device, roofs.sum_ns DESC, roofs.name, roofs.category
