-- One row per device and step, and one per device over all that was recorded: what share of its peak rate it reached.
--
-- Model FLOPs utilisation (MFU): the time that the operations of the model (products, convolutions, attention, without what
-- is recomputed) would take at peak rate, each at the peak of its own type, over the wall time. Hardware FLOPs utilisation
-- (HFU) counts all operations that were executed. Three denominators: wall time; busy time, in which any GPU operation
-- runs; and the time of the modelled calls alone. Operations of a step are those of the calls whose first GPU operation
-- starts in it. NULL: a peak is unknown, or the calls with known operations cover less than half of the device's work.
-- Source: PaLM, arXiv 2204.02311, appendix B; Megatron, arXiv 2205.05198.
--
-- columns: trace, rank, device
--   step               BIGINT   step of the device; NULL: all that was recorded, from the first to the last GPU operation
--   wall_ns            BIGINT   its duration
--   busy_ns            BIGINT   time in which a GPU operation runs
--   modelled_ns        BIGINT   sum of the time of the calls with known operations
--   flops              HUGEINT  operations executed, where known
--   model_flops        HUGEINT  operations of the model, where known
--   tflops             DOUBLE   flops / wall_ns, in 10^12 per second
--   covered_share      DOUBLE   GPU operations of calls with known operations / all GPU operations, by sums of durations
--   mfu                DOUBLE   model operations at peak rate / wall time
--   hfu                DOUBLE   executed operations at peak rate / wall time
--   mfu_of_busy        DOUBLE   model operations at peak rate / busy time
--   mfu_of_modelled    DOUBLE   model operations at peak rate / time of the modelled calls
WITH spans AS (
    SELECT
        trace_id, device, CAST(NULL AS BIGINT) AS step,
        min(start_ns) AS start_ns,
        max(start_ns + dur_ns) AS end_ns
    FROM canonical.gpu_ops
    GROUP BY trace_id, device
    UNION ALL
    SELECT trace_id, device, step, start_ns, end_ns
    FROM attribution.steps
    WHERE start_ns IS NOT NULL
),
numbered AS MATERIALIZED (
    SELECT *, row_number() OVER (ORDER BY trace_id, device, step) AS key
    FROM spans
),
placed_ops AS (
    SELECT
        ops.trace_id, ops.device, ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns,
        ops.dur_ns,
        CASE WHEN ops.start_ns < steps.end_ns THEN steps.key END AS step_key,
        CASE WHEN ops.start_ns < steps.end_ns THEN least(ops.start_ns + ops.dur_ns, steps.end_ns) END AS step_part_end_ns
    FROM canonical.gpu_ops AS ops
    ASOF LEFT JOIN (FROM numbered WHERE step IS NOT NULL) AS steps
        ON steps.trace_id = ops.trace_id AND steps.device = ops.device AND steps.start_ns <= ops.start_ns
),
-- Steps of a device do not overlap: one pass in the order of starts counts both the time of all and that of each step.
ordered_ops AS MATERIALIZED (
    SELECT
        trace_id, device, step_key, dur_ns,
        uncovered_ns(start_ns, end_ns, max(end_ns) OVER before) AS added_ns,
        uncovered_ns(start_ns, step_part_end_ns, max(step_part_end_ns) OVER before) AS step_added_ns
    FROM placed_ops
    WINDOW before AS (
        PARTITION BY trace_id, device
        ORDER BY start_ns
        ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    )
),
all_work AS (
    SELECT whole.key, sum(ops.dur_ns) AS op_sum_ns, sum(ops.added_ns) AS busy_ns
    FROM ordered_ops AS ops
    JOIN numbered AS whole ON whole.trace_id = ops.trace_id AND whole.device = ops.device AND whole.step IS NULL
    GROUP BY whole.key
    UNION ALL
    SELECT step_key, sum(dur_ns), sum(step_added_ns)
    FROM ordered_ops
    WHERE step_key IS NOT NULL
    GROUP BY step_key
),
products AS MATERIALIZED (
    SELECT
        floors.trace_id, floors.device, floors.step, floors.flops, floors.model_flops, floors.dur_ns,
        floors.op_sum_ns,
        floors.flops / nullif(floors.peak_tflops, 0) / 1000 AS hardware_ns,
        floors.model_flops / nullif(floors.peak_tflops, 0) / 1000 AS model_ns
    FROM operator_floors AS floors
    WHERE floors.family IN ('matrix', 'convolution', 'attention') AND floors.flops IS NOT NULL
),
totals AS (
    SELECT
        numbered.key,
        sum(products.flops) AS flops,
        sum(products.model_flops) AS model_flops,
        sum(products.dur_ns) AS modelled_ns,
        sum(products.op_sum_ns) AS op_sum_ns,
        sum(products.model_ns ORDER BY products.model_ns) AS model_ns,
        sum(products.hardware_ns ORDER BY products.hardware_ns) AS hardware_ns,
        count(products.model_ns) = count(*) AS has_peaks
    FROM numbered
    JOIN products
      ON products.trace_id = numbered.trace_id
     AND products.device = numbered.device
     AND (numbered.step IS NULL OR numbered.step = products.step)
    GROUP BY numbered.key
),
sums AS (
    SELECT
        numbered.*,
        end_ns - numbered.start_ns AS wall_ns,
        CAST(coalesce(all_work.busy_ns, 0) AS BIGINT) AS busy_ns,
        CAST(coalesce(totals.modelled_ns, 0) AS BIGINT) AS modelled_ns,
        coalesce(totals.flops, 0) AS flops,
        coalesce(totals.model_flops, 0) AS model_flops,
        coalesce(totals.op_sum_ns, 0) / nullif(all_work.op_sum_ns, 0) AS covered_share,
        CASE WHEN has_peaks AND covered_share >= 0.5 THEN totals.model_ns END AS model_ns,
        CASE WHEN has_peaks AND covered_share >= 0.5 THEN totals.hardware_ns END AS hardware_ns
    FROM numbered
    LEFT JOIN all_work USING (key)
    LEFT JOIN totals USING (key)
)
SELECT
    traces.trace, traces.rank, sums.device, sums.step, sums.wall_ns, sums.busy_ns, sums.modelled_ns,
    sums.flops, sums.model_flops,
    sums.flops::DOUBLE / nullif(sums.wall_ns, 0) / 1000 AS tflops,
    sums.covered_share,
    sums.model_ns / nullif(sums.wall_ns, 0) AS mfu,
    sums.hardware_ns / nullif(sums.wall_ns, 0) AS hfu,
    sums.model_ns / nullif(sums.busy_ns, 0) AS mfu_of_busy,
    sums.model_ns / nullif(sums.modelled_ns, 0) AS mfu_of_modelled
FROM sums
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY sums.trace_id, sums.device, sums.step NULLS FIRST
