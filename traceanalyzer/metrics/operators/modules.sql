-- One row per trace and module of the model: what its forward and backward passes cost on the host and on the device.
--
-- A module is the chain of the nn.Module frames around a call; each instance of a class has a number of its own, by
-- which the profiler names it. All numbers of the device include the modules inside. The backward pass of a module is
-- the GPU work whose forward operator ran in it (op_owners). Modules that activation checkpointing runs again in the
-- backward pass count as recomputed, and below the module that the profiler saw around them there. Work that belongs to
-- no module (accumulated gradients, optimizers, communication hooks) has no row. Work of a replayed graph belongs to the
-- module around its captured launch, as forward work; such a replay is no call of the module. Without Python stacks
-- (with_stack) there are no rows.
--
-- columns: trace, rank, trace_id
--   path            VARCHAR  names of the modules from the outermost to this one, joined by slashes
--   parent_path     VARCHAR  path of the module around it; NULL: none
--   depth           INTEGER  modules around it
--   module          VARCHAR  class and number of the instance: Linear_25
--   class           VARCHAR  class: Linear
--   call_count      BIGINT   calls
--   host_sum_ns     BIGINT   sum of the calls' durations on the host
--   host_self_ns    BIGINT   the same without the modules inside
--   forward_ns      BIGINT   sum of the durations of the GPU operations launched in the forward pass
--   backward_ns     BIGINT   sum of the durations of the GPU operations of its backward pass
--   recomputed_ns   BIGINT   sum of the durations of the GPU operations launched in it during the backward pass
--   op_count        BIGINT   all those GPU operations
--   flops           HUGEINT  operations of its calls with a known cost (operator_costs), executed
--   modelled_ns     BIGINT   device time of those calls; compare with the sum of forward, backward and recomputed
WITH RECURSIVE
owners AS MATERIALIZED (
    SELECT trace_id, op_id, owner_id, module_id, module_link, is_backward
    FROM op_owners
    WHERE module_id IS NOT NULL
),
-- A capture's modules are those of each trace that replays a graph of it.
frames AS MATERIALIZED (
    SELECT
        trace_id, trace_id AS owner_id, slice_id, module_id,
        replace(name, 'nn.Module: ', '') AS module,
        dur_ns, 1 AS call_count
    FROM canonical.host_slices
    WHERE category = 'python' AND starts_with(name, 'nn.Module: ')
    UNION ALL
    SELECT
        pairs.trace_id, pairs.owner_id, slices.slice_id, slices.module_id,
        replace(slices.name, 'nn.Module: ', ''),
        0, 0
    FROM (SELECT DISTINCT trace_id, owner_id FROM owners WHERE owner_id <> trace_id) AS pairs
    JOIN canonical.capture_slices AS slices ON slices.capture_id = pairs.owner_id
    WHERE slices.category = 'python' AND starts_with(slices.name, 'nn.Module: ')
),
placed AS (
    SELECT
        trace_id, owner_id, slice_id, call_count, module AS path, CAST(NULL AS VARCHAR) AS parent_path,
        0 AS depth, module, dur_ns
    FROM frames
    WHERE module_id IS NULL
    UNION ALL
    SELECT
        frames.trace_id, frames.owner_id, frames.slice_id, frames.call_count,
        placed.path || '/' || frames.module,
        placed.path,
        placed.depth + 1,
        frames.module, frames.dur_ns
    FROM placed
    JOIN frames
      ON frames.trace_id = placed.trace_id
     AND frames.owner_id = placed.owner_id
     AND frames.module_id = placed.slice_id
),
calls AS MATERIALIZED (FROM placed),
inner_time AS (
    SELECT trace_id, owner_id, module_id AS slice_id, sum(dur_ns) AS inner_ns
    FROM frames
    WHERE module_id IS NOT NULL
    GROUP BY trace_id, owner_id, module_id
),
host AS (
    SELECT
        calls.trace_id, calls.path,
        any_value(calls.parent_path) AS parent_path,
        any_value(calls.depth) AS depth,
        any_value(calls.module) AS module,
        CAST(sum(calls.call_count) AS BIGINT) AS call_count,
        CAST(sum(calls.dur_ns) AS BIGINT) AS host_sum_ns,
        CAST(sum(greatest(calls.dur_ns - coalesce(inner_time.inner_ns, 0), 0)) AS BIGINT) AS host_self_ns
    FROM calls
    LEFT JOIN inner_time USING (trace_id, owner_id, slice_id)
    GROUP BY calls.trace_id, calls.path
),
owned_costs AS (
    SELECT
        owned.trace_id, owned.slice_id,
        any_value(owners.owner_id) AS owner_id,
        any_value(owners.module_id) AS module_id
    FROM modelled_ops AS owned
    JOIN owners USING (trace_id, op_id)
    GROUP BY owned.trace_id, owned.slice_id
),
costs AS (
    SELECT
        calls.trace_id, calls.path,
        sum(operator_costs.flops) AS flops,
        sum(operator_costs.op_sum_ns) FILTER (WHERE operator_costs.flops IS NOT NULL) AS modelled_ns
    FROM owned_costs
    JOIN operator_costs USING (trace_id, slice_id)
    JOIN calls
      ON calls.trace_id = owned_costs.trace_id
     AND calls.owner_id = owned_costs.owner_id
     AND calls.slice_id = owned_costs.module_id
    GROUP BY calls.trace_id, calls.path
),
device_work AS (
    SELECT
        calls.trace_id, calls.path,
        sum(ops.dur_ns) FILTER (WHERE NOT owners.is_backward) AS forward_ns,
        sum(ops.dur_ns) FILTER (WHERE owners.is_backward AND owners.module_link = 'forward') AS backward_ns,
        sum(ops.dur_ns) FILTER (WHERE owners.is_backward AND owners.module_link = 'stack') AS recomputed_ns,
        count(*) AS op_count
    FROM owners
    JOIN canonical.gpu_ops AS ops USING (trace_id, op_id)
    JOIN calls
      ON calls.trace_id = owners.trace_id
     AND calls.owner_id = owners.owner_id
     AND calls.slice_id = owners.module_id
    GROUP BY calls.trace_id, calls.path
),
own AS MATERIALIZED (
    SELECT
        host.trace_id, host.path, host.parent_path,
        coalesce(device_work.forward_ns, 0) AS forward_ns,
        coalesce(device_work.backward_ns, 0) AS backward_ns,
        coalesce(device_work.recomputed_ns, 0) AS recomputed_ns,
        coalesce(device_work.op_count, 0) AS op_count,
        coalesce(costs.flops, 0) AS flops,
        coalesce(costs.modelled_ns, 0) AS modelled_ns
    FROM host
    LEFT JOIN device_work USING (trace_id, path)
    LEFT JOIN costs USING (trace_id, path)
),
-- Work of a module counts for it and for each module around it.
climbing AS (
    SELECT * FROM own
    UNION ALL
    SELECT
        climbing.trace_id, climbing.parent_path, around.parent_path, climbing.forward_ns,
        climbing.backward_ns, climbing.recomputed_ns, climbing.op_count, climbing.flops, climbing.modelled_ns
    FROM climbing
    JOIN own AS around ON around.trace_id = climbing.trace_id AND around.path = climbing.parent_path
),
totals AS (
    SELECT
        trace_id, path,
        CAST(sum(forward_ns) AS BIGINT) AS forward_ns,
        CAST(sum(backward_ns) AS BIGINT) AS backward_ns,
        CAST(sum(recomputed_ns) AS BIGINT) AS recomputed_ns,
        CAST(sum(op_count) AS BIGINT) AS op_count,
        CAST(sum(flops) AS HUGEINT) AS flops,
        CAST(sum(modelled_ns) AS BIGINT) AS modelled_ns
    FROM climbing
    GROUP BY trace_id, path
)
SELECT
    traces.trace, traces.rank, host.trace_id, host.path, host.parent_path, host.depth, host.module,
    regexp_replace(host.module, '_\d+$', '') AS class,
    host.call_count, host.host_sum_ns, host.host_self_ns, totals.forward_ns, totals.backward_ns,
    totals.recomputed_ns, totals.op_count, totals.flops, totals.modelled_ns
FROM host
JOIN totals USING (trace_id, path)
JOIN canonical.traces AS traces USING (trace_id)
-- A capture also shows modules that launch nothing into a graph of the run.
WHERE host.call_count > 0 OR totals.op_count > 0
ORDER BY host.trace_id, host.path
