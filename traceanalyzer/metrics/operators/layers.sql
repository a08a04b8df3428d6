-- One row per trace and layer of the model: modules of one class at one place, put together.
--
-- A layer is the chain of classes around a module: the 24 decoder layers of a model are one row, and all attention modules
-- inside them another. Times and operations are the sums of the modules' (modules): those of the device include the layers
-- inside. Without Python stacks (with_stack) there are no rows.
--
-- columns: trace, rank, trace_id
--   path            VARCHAR  classes from the outermost module to this one, joined by slashes
--   parent_path     VARCHAR  path of the layer around it; NULL: none
--   depth           INTEGER  layers around it
--   class           VARCHAR  class: Linear
--   module_count    BIGINT   modules
--   call_count      BIGINT   calls
--   host_sum_ns     BIGINT   sum of the calls' durations on the host
--   host_self_ns    BIGINT   the same without the modules inside
--   forward_ns      BIGINT   sum of the durations of the GPU operations launched in the forward pass
--   backward_ns     BIGINT   sum of the durations of the GPU operations of its backward pass
--   recomputed_ns   BIGINT   sum of the durations of the GPU operations launched in it during the backward pass
--   op_count        BIGINT   all those GPU operations
--   flops           HUGEINT  operations of its calls with a known cost (operator_costs), executed
--   modelled_ns     BIGINT   device time of those calls; compare with the sum of forward, backward and recomputed
WITH placed AS (
    SELECT
        *,
        regexp_replace(path, '_\d+(/|$)', '\1', 'g') AS class_path,
        regexp_replace(parent_path, '_\d+(/|$)', '\1', 'g') AS class_parent_path
    FROM modules
)
SELECT
    trace, rank, trace_id, class_path AS path,
    any_value(class_parent_path) AS parent_path,
    any_value(depth) AS depth,
    any_value(class) AS class,
    count(*) AS module_count,
    CAST(sum(call_count) AS BIGINT) AS call_count,
    CAST(sum(host_sum_ns) AS BIGINT) AS host_sum_ns,
    CAST(sum(host_self_ns) AS BIGINT) AS host_self_ns,
    CAST(sum(forward_ns) AS BIGINT) AS forward_ns,
    CAST(sum(backward_ns) AS BIGINT) AS backward_ns,
    CAST(sum(recomputed_ns) AS BIGINT) AS recomputed_ns,
    CAST(sum(op_count) AS BIGINT) AS op_count,
    sum(flops) AS flops,
    CAST(sum(modelled_ns) AS BIGINT) AS modelled_ns
FROM placed
GROUP BY trace, rank, trace_id, class_path
ORDER BY trace_id, sum(placed.forward_ns + placed.backward_ns + placed.recomputed_ns) DESC, class_path
