-- One row per modelled operator, its shapes and types, of which Nsight Compute profiled kernels: where counters and the
-- model disagree.
--
-- A call is compared if each of its kernels was profiled with the same name, grid and block (ncu_join). The sums over its
-- kernels are compared. A kernel that runs for several shapes, or whose counters spread by more than a hundredth, cannot be
-- attributed to one shape by its launch, so its calls are not judged. Memsets and copies of a call have no counters. Name, grid and block
-- do not determine the inner dimension of a product: what Nsight Compute profiled has to be the job of the trace.
--
-- Operations: up to 5 % apart is agreement. More: products padded to whole tiles, or work that the model does not know.
-- Fewer: an algorithm that saves some (Winograd), a mask, or arguments that the model takes for something else. Without
-- operations on tensor cores, those of half precision are unknown: some instructions do two.
--
-- Bytes: the traffic factor is device memory's bytes / least bytes of the model. Up to 10 % apart is agreement; above,
-- data is read again (re-reads); below, caches kept some of it (cache), as far as twice the largest cache can: what lay in
-- it before and what is left in it afterwards. Even fewer are impossible: the model's least is too high. Where the cache's
-- size is not known, below is all that can be said.
--
-- columns: trace, rank, device
--   operator           VARCHAR  operator
--   family             VARCHAR  as in operator_models
--   input_shapes       VARCHAR  shapes of its inputs as written, a JSON list
--   input_types        VARCHAR  types of its inputs as written, a JSON list
--   call_count         BIGINT   calls with kernels
--   compared_count     BIGINT   of these, calls that are compared
--   sum_ns             BIGINT   sum of the kernels' durations, in the trace
--   model_flops        HUGEINT  operations of a call that it executes, by the model; NULL: unknown, or none of interest
--   measured_flops     DOUBLE   operations of a call, by counters; NULL: unknown
--   flops_factor       DOUBLE   measured_flops / model_flops
--   flops_verdict      VARCHAR  agrees, more or fewer; NULL: not compared
--   model_bytes        HUGEINT  least bytes of a call, by the model
--   measured_bytes     DOUBLE   bytes of device memory of a call, by counters; NULL: unknown
--   traffic_factor     DOUBLE   measured_bytes / model_bytes
--   bytes_verdict      VARCHAR  agrees, re-reads, cache, below or impossible; NULL: not compared
--   disagrees          BOOLEAN  operations are more or fewer, or bytes are impossible
--   reason             VARCHAR  why nothing is compared: other kernels without counters, several shapes, counters spread;
--                               NULL: something is
WITH costs AS (
    SELECT
        trace_id, trace, rank, device, slice_id, operator, family, input_shapes, input_types, kernel_sum_ns,
        flops, stored_bytes,
        starts_with(element_type, 'c10::') AS is_half,
        hash(operator, input_shapes, input_types, flops, stored_bytes) AS work
    FROM operator_costs
    SEMI JOIN (FROM ncu_join WHERE tier = 'launch') AS counted USING (trace_id)
    WHERE basis = 'modelled' AND kernel_sum_ns > 0
),
call_kernels AS (
    SELECT
        costs.trace_id, costs.slice_id, costs.work, joined.tier, joined.spread, joined.dram_bytes,
        joined.flops,
        hash(costs.trace_id, joined.device, joined.name, joined.size) AS kernel
    FROM costs
    JOIN modelled_ops AS owned USING (trace_id, slice_id)
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = owned.trace_id AND ops.op_id = owned.op_id AND ops.kind = 'kernel'
    LEFT JOIN (
        SELECT *, launch_size(grid_x, grid_y, grid_z, block_x, block_y, block_z) AS size FROM ncu_join
    ) AS joined
      ON joined.trace_id = ops.trace_id
     AND joined.device = ops.device
     AND joined.name = ops.name
     AND joined.size = launch_size(ops.grid_x, ops.grid_y, ops.grid_z, ops.block_x, ops.block_y, ops.block_z)
),
shared_kernels AS (
    SELECT kernel
    FROM call_kernels
    GROUP BY kernel
    HAVING count(DISTINCT work) > 1
),
measured_calls AS (
    SELECT
        trace_id, slice_id,
        bool_or(tier = 'launch') AS has_counters,
        bool_and(coalesce(tier = 'launch', FALSE)) AS is_whole,
        bool_or(shared_kernels.kernel IS NOT NULL) AS is_shared,
        bool_or(coalesce(spread > 1.01, FALSE)) AS is_spread,
        if(count(dram_bytes) = count(*), sum(dram_bytes), NULL) AS dram_bytes,
        if(count(call_kernels.flops) = count(*), sum(call_kernels.flops), NULL) AS flops
    FROM call_kernels
    LEFT JOIN shared_kernels USING (kernel)
    GROUP BY trace_id, slice_id
),
judged AS (
    SELECT
        costs.*,
        calls.has_counters,
        CASE
            WHEN NOT calls.is_whole THEN 'other kernels without counters'
            WHEN calls.is_shared THEN 'several shapes'
            WHEN calls.is_spread THEN 'counters spread'
        END AS obstacle,
        if(obstacle IS NULL, calls.dram_bytes, NULL) AS call_bytes,
        if(obstacle IS NULL, calls.flops, NULL) AS call_flops
    FROM costs
    JOIN measured_calls AS calls USING (trace_id, slice_id)
),
operators AS (
    SELECT
        trace_id, trace, rank, device, operator, family, input_shapes, input_types,
        count(*) AS call_count,
        count(*) FILTER (WHERE obstacle IS NULL) AS compared_count,
        CAST(sum(kernel_sum_ns) AS BIGINT) AS sum_ns,
        nullif(flops, 0) AS model_flops,
        if(any_value(is_half) AND avg(call_flops) = 0, NULL, avg(call_flops)) AS counted_flops,
        nullif(stored_bytes, 0) AS model_bytes,
        avg(call_bytes) AS measured_bytes,
        min(obstacle) AS obstacle
    FROM judged
    GROUP BY ALL
    HAVING bool_or(has_counters)
)
SELECT
    trace, rank, device, operator, family, input_shapes, input_types, call_count, compared_count, sum_ns,
    model_flops,
    if(model_flops IS NULL, NULL, counted_flops) AS measured_flops,
    measured_flops / model_flops AS flops_factor,
    CASE WHEN flops_factor > 1.05 THEN 'more' WHEN flops_factor < 0.95 THEN 'fewer' WHEN flops_factor IS NOT NULL THEN 'agrees' END
        AS flops_verdict,
    model_bytes, measured_bytes,
    measured_bytes / model_bytes AS traffic_factor,
    CASE
        WHEN traffic_factor > 1.1 THEN 're-reads'
        WHEN traffic_factor >= 0.9 THEN 'agrees'
        WHEN traffic_factor IS NULL THEN NULL
        WHEN cache_bytes IS NULL THEN 'below'
        WHEN measured_bytes + 2 * cache_bytes >= model_bytes THEN 'cache'
        ELSE 'impossible'
    END AS bytes_verdict,
    coalesce(flops_verdict IN ('more', 'fewer'), FALSE) OR coalesce(bytes_verdict = 'impossible', FALSE) AS disagrees,
    if(compared_count = 0, obstacle, NULL) AS reason
FROM operators
LEFT JOIN device_details USING (trace_id, device)
ORDER BY trace_id, device, disagrees DESC, sum_ns DESC, operator, input_shapes, input_types, model_flops, model_bytes
