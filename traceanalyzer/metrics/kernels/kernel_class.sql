-- One row per kernel: what kind of work it does, and its share of the wall time of the analysis window.
--
-- Wall time: while k compute kernels run at once, each of them gets 1/k of the time. So the wall times of all compute
-- kernels add up to the compute time of the window (with an error of at most 1 ns per kernel). Communication kernels
-- get none.
--
-- columns: trace, rank, device, trace_id
--   op_id        BIGINT   gpu_ops.op_id
--   name         VARCHAR  kernel, as written
--   class        VARCHAR  gemm, gemv, conv, attention, norm, softmax, elementwise, reduce (or scan), copy, optimizer,
--                         comm, gather (or scatter), sort (or top-k), fft or other
--   precision    VARCHAR  fp64, fp32, tf32, fp16, bf16, fp8, fp4 or unknown; NULL: not a matmul
--   tensor_core  VARCHAR  yes, no or unknown; NULL: not a matmul
--   operator     VARCHAR  operator that launched it, without the name of its overload, in a replayed graph by its capture;
--                         NULL: not known
--   operator_id  BIGINT   that operator (host_slices.slice_id, or captured_calls.call_id)
--   stream       BIGINT   stream
--   step         BIGINT   step of the device in which it starts; NULL: outside steps
--   start_ns     BIGINT   start
--   dur_ns       BIGINT   duration
--   wall_ns      BIGINT   its part of the analysis window's wall time; 0 outside the window
WITH compute AS (
    SELECT trace_id, device, start_ns, start_ns + dur_ns AS end_ns
    FROM gpu_ops
    WHERE kind = 'kernel' AND NOT is_comm
),
windows_of_compute AS (
    SELECT trace_id, device, start_ns, start_ns + dur_ns AS end_ns
    FROM ledger_rows
    WHERE kept AND bucket = 'compute'
),
changes AS (
    SELECT trace_id, device, start_ns AS at_ns, 1 AS kernels, 0 AS windows FROM compute
    UNION ALL
    SELECT trace_id, device, end_ns, -1, 0 FROM compute
    UNION ALL
    SELECT trace_id, device, start_ns, 0, 1 FROM windows_of_compute
    UNION ALL
    SELECT trace_id, device, end_ns, 0, -1 FROM windows_of_compute
),
instants AS (
    SELECT trace_id, device, at_ns, sum(kernels) AS kernels, sum(windows) AS windows
    FROM changes
    GROUP BY trace_id, device, at_ns
),
-- From each instant to the next the same kernels run; `share_ns` is the part of this stretch that each of them gets.
stretches AS (
    SELECT
        trace_id, device, at_ns,
        lead(at_ns) OVER timeline - at_ns AS dur_ns,
        sum(kernels) OVER timeline AS running_count,
        sum(windows) OVER timeline AS window_count
    FROM instants
    WINDOW timeline AS (PARTITION BY trace_id, device ORDER BY at_ns)
),
clocks AS (
    SELECT
        trace_id, device, at_ns,
        coalesce(
            sum(CASE WHEN running_count > 0 AND window_count > 0 THEN dur_ns::DOUBLE / running_count ELSE 0 END) OVER (
                PARTITION BY trace_id, device
                ORDER BY at_ns
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            0
        ) AS share_ns
    FROM stretches
),
-- Apart from the rest of a kernel's row, for finding the step sorts it.
placed AS (
    SELECT ops.trace_id, ops.op_id, steps.step
    FROM (SELECT trace_id, device, op_id, start_ns FROM gpu_ops WHERE kind = 'kernel') AS ops
    ASOF JOIN attribution.steps AS steps
        ON steps.trace_id = ops.trace_id AND steps.device = ops.device AND steps.start_ns <= ops.start_ns
    WHERE ops.start_ns < steps.end_ns
)
SELECT
    traces.trace, traces.rank, ops.device, ops.trace_id, ops.op_id, ops.name,
    coalesce(names.class, 'other') AS class,
    names.precision, names.tensor_core,
    operator_base(coalesce(calls.name, operators.name)) AS operator,
    coalesce(captured.call_id, ops.cpu_op_id) AS operator_id,
    ops.stream, placed.step, ops.start_ns, ops.dur_ns,
    CASE WHEN ops.is_comm THEN 0 ELSE round(ends.share_ns) - round(starts.share_ns) END::BIGINT AS wall_ns
FROM gpu_ops AS ops
JOIN traces USING (trace_id)
LEFT JOIN kernel_class_names AS names USING (name)
LEFT JOIN host_slices AS operators
       ON operators.trace_id = ops.trace_id AND operators.slice_id = ops.cpu_op_id AND operators.category = 'cpu_op'
LEFT JOIN attribution.captured_owners AS captured ON captured.trace_id = ops.trace_id AND captured.op_id = ops.op_id
LEFT JOIN attribution.captured_calls AS calls ON calls.trace_id = captured.trace_id AND calls.call_id = captured.call_id
LEFT JOIN clocks AS starts
       ON starts.trace_id = ops.trace_id AND starts.device = ops.device AND starts.at_ns = ops.start_ns
LEFT JOIN clocks AS ends
       ON ends.trace_id = ops.trace_id AND ends.device = ops.device AND ends.at_ns = ops.start_ns + ops.dur_ns
LEFT JOIN placed ON placed.trace_id = ops.trace_id AND placed.op_id = ops.op_id
WHERE ops.kind = 'kernel'
