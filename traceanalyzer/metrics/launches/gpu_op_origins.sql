-- One row per GPU operation: what caused it, from the launch call to the line of Python.
--
-- The launch call has the same correlation id as the operation. The operator is the one with the operation's external
-- id, else the innermost one around the call. Annotation and Python frame are those around the call, else around the
-- operator. The step is the device's step that contains the operation (see steps). NULL: not in the trace, or not
-- recorded.
--
-- columns: trace, rank, device
--   op_id       BIGINT   the operation (gpu_ops.op_id)
--   kind        VARCHAR  kernel, memcpy, memset or graph
--   name        VARCHAR  name of the operation
--   start_ns    BIGINT   start of the operation
--   dur_ns      BIGINT   duration of the operation
--   step        BIGINT   step of the device
--   launch_api  VARCHAR  call that launched it
--   operator    VARCHAR  operator that made the call
--   annotation  VARCHAR  innermost annotation around the call
--   python      VARCHAR  innermost Python frame around the call: file(line): function
--   link_source VARCHAR  how the operator, or else the annotation, was found: external_id, nesting, flow or time
WITH causes AS MATERIALIZED (
    SELECT trace_id, slice_id, name
    FROM host_slices
    SEMI JOIN (
        SELECT trace_id, unnest([launch_id, cpu_op_id, annotation_id, python_id]) AS slice_id
        FROM gpu_ops
    ) AS origins USING (trace_id, slice_id)
)
SELECT
    trace, rank, gpu_ops.device, gpu_ops.op_id, gpu_ops.kind, gpu_ops.name, gpu_ops.start_ns, gpu_ops.dur_ns,
    CASE WHEN gpu_ops.start_ns < steps.end_ns THEN steps.step END AS step,
    launch.name AS launch_api, operator.name AS operator, annotation.name AS annotation,
    python.name AS python, link_source
FROM gpu_ops
JOIN canonical.traces USING (trace_id)
ASOF LEFT JOIN attribution.steps
    ON steps.trace_id = gpu_ops.trace_id AND steps.device = gpu_ops.device AND steps.start_ns <= gpu_ops.start_ns
LEFT JOIN causes AS launch ON launch.trace_id = gpu_ops.trace_id AND launch.slice_id = launch_id
LEFT JOIN causes AS operator ON operator.trace_id = gpu_ops.trace_id AND operator.slice_id = cpu_op_id
LEFT JOIN causes AS annotation ON annotation.trace_id = gpu_ops.trace_id AND annotation.slice_id = gpu_ops.annotation_id
LEFT JOIN causes AS python ON python.trace_id = gpu_ops.trace_id AND python.slice_id = gpu_ops.python_id
