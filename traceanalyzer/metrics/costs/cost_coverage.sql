-- One row per device and reason: how much of its work the model of operations and bytes covers, and why the rest is not
-- covered.
--
-- Each GPU operation counts once, in the row of the modelled call that launched it, else in one of the other rows.
-- Totals of operator_costs, operator_efficiency and utilisation mean little without these shares.
--
-- columns: trace, rank, device
--   status      VARCHAR  modelled; a reason of operator_costs; or communication (its kernel moves data between devices:
--                        see collective_efficiency), compiled code (a kernel of Triton, in no modelled operator: see
--                        triton_kernels), no model (an operator without one launched it), graph (a graph's replay of
--                        whose operator is in no capture), no operator (its launch lies in none), no launch (the call that launched it is not in
--                        the trace)
--   family      VARCHAR  as in operator_models; NULL: no modelled operator
--   call_count  BIGINT   modelled calls that launched it; NULL: none did
--   op_count    BIGINT   GPU operations
--   op_sum_ns   BIGINT   sum of their durations
--   op_share    DOUBLE   op_sum_ns / sum over all GPU operations of the device
WITH ops AS (
    SELECT
        ops.trace_id, ops.device, ops.dur_ns, owned.slice_id,
        CASE
            WHEN captured.call_id IS NULL
             AND (ops.graph_id IS NOT NULL OR launch.slice_id IS NOT NULL OR ops.kind = 'graph')
            THEN 'graph'
            WHEN ops.launch_id IS NULL AND ops.cpu_op_id IS NULL THEN 'no launch'
            WHEN ops.is_comm THEN 'communication'
            WHEN ops.kind = 'kernel' AND starts_with(ops.name, 'triton_') THEN 'compiled code'
            WHEN coalesce(captured.call_id, ops.cpu_op_id) IS NULL THEN 'no operator'
            ELSE 'no model'
        END AS without_model
    FROM canonical.gpu_ops AS ops
    LEFT JOIN attribution.captured_owners AS captured ON captured.trace_id = ops.trace_id AND captured.op_id = ops.op_id
    LEFT JOIN modelled_ops AS owned ON owned.trace_id = ops.trace_id AND owned.op_id = ops.op_id
    LEFT JOIN (FROM canonical.host_slices WHERE name ILIKE '%GraphLaunch%') AS launch
           ON launch.trace_id = ops.trace_id AND launch.slice_id = ops.launch_id
),
reasoned AS (
    SELECT
        ops.trace_id, ops.device,
        CASE WHEN ops.slice_id IS NULL THEN ops.without_model ELSE coalesce(costs.reason, 'modelled') END AS status,
        costs.family,
        count(DISTINCT ops.slice_id) AS call_count,
        count(*) AS op_count,
        CAST(sum(ops.dur_ns) AS BIGINT) AS op_sum_ns
    FROM ops
    LEFT JOIN operator_costs AS costs ON costs.trace_id = ops.trace_id AND costs.slice_id = ops.slice_id
    GROUP BY ALL
)
SELECT
    traces.trace, traces.rank, reasoned.device, reasoned.status, reasoned.family,
    nullif(reasoned.call_count, 0) AS call_count,
    reasoned.op_count, reasoned.op_sum_ns,
    reasoned.op_sum_ns / nullif(sum(reasoned.op_sum_ns) OVER (PARTITION BY reasoned.trace_id, reasoned.device), 0) AS op_share
FROM reasoned
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY reasoned.trace_id, reasoned.device, reasoned.op_sum_ns DESC, reasoned.status, reasoned.family
