-- One row per trace, operator and sequence of GPU operations: how often calls of the operator launch this sequence.
--
-- A call has all GPU operations that it and the operators inside it launch, in the order of their starts. Calls inside a
-- call of the same operator are part of it. Sequences of fewer than three operations are left out: kernel_summary has
-- them. Many calls with one sequence are a candidate for a fused kernel or a graph; one operator with many sequences
-- changes its work from call to call.
-- Source: Holistic Trace Analysis, frequent CUDA kernel sequences, which takes the names that contain a text, at the
-- least depth of all of them.
--
-- columns: trace, rank, trace_id
--   operator         VARCHAR  operator
--   sequence         VARCHAR  names of the first 64 operations, joined by vertical bars
--   sequence_length  BIGINT   operations in the sequence
--   call_count       BIGINT   calls that launch it
--   device_sum_ns    BIGINT   sum of the durations of their GPU operations
--   host_sum_ns      BIGINT   sum of the calls' durations on the host
WITH RECURSIVE
operators AS MATERIALIZED (
    SELECT trace_id, slice_id, op_id AS around_id, name, thread_id, start_ns, dur_ns
    FROM canonical.host_slices
    WHERE category = 'cpu_op'
),
launchers AS MATERIALIZED (
    SELECT trace_id, cpu_op_id AS launcher_id, count(*) AS op_count
    FROM canonical.gpu_ops
    WHERE cpu_op_id IS NOT NULL
    GROUP BY trace_id, cpu_op_id
),
climbing AS (
    SELECT trace_id, launcher_id, launcher_id AS slice_id
    FROM launchers
    UNION ALL
    SELECT climbing.trace_id, climbing.launcher_id, operators.around_id
    FROM climbing
    JOIN operators ON operators.trace_id = climbing.trace_id AND operators.slice_id = climbing.slice_id
    WHERE operators.around_id IS NOT NULL
),
around AS MATERIALIZED (FROM climbing),
-- Of nested calls of one operator, the outermost.
calls AS MATERIALIZED (
    SELECT *
    FROM operators
    SEMI JOIN (
        SELECT trace_id, slice_id
        FROM around
        JOIN launchers USING (trace_id, launcher_id)
        GROUP BY trace_id, slice_id
        HAVING sum(op_count) >= 3
    ) AS launching USING (trace_id, slice_id)
    QUALIFY coalesce(
        start_ns + dur_ns > max(start_ns + dur_ns) OVER (
            PARTITION BY trace_id, thread_id, name
            ORDER BY start_ns, dur_ns DESC, slice_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        TRUE
    )
),
-- Materialized: in one query with the next, calls are joined with all operations of their trace.
call_launchers AS MATERIALIZED (
    SELECT trace_id, slice_id, launcher_id
    FROM around
    SEMI JOIN calls USING (trace_id, slice_id)
),
launched AS (
    SELECT
        call_launchers.trace_id, call_launchers.slice_id,
        list(ops.name ORDER BY ops.start_ns, ops.op_id) AS names,
        sum(ops.dur_ns) AS device_ns
    FROM call_launchers
    JOIN canonical.gpu_ops AS ops ON ops.trace_id = call_launchers.trace_id AND ops.cpu_op_id = call_launchers.launcher_id
    GROUP BY call_launchers.trace_id, call_launchers.slice_id
),
sums AS (
    SELECT
        trace_id, calls.name AS operator, launched.names,
        count(*) AS call_count,
        CAST(sum(launched.device_ns) AS BIGINT) AS device_sum_ns,
        CAST(sum(calls.dur_ns) AS BIGINT) AS host_sum_ns
    FROM launched
    JOIN calls USING (trace_id, slice_id)
    GROUP BY trace_id, calls.name, launched.names
)
SELECT
    traces.trace, traces.rank, sums.trace_id, sums.operator,
    array_to_string(sums.names[:64], '|') AS sequence,
    len(sums.names) AS sequence_length,
    sums.call_count, sums.device_sum_ns, sums.host_sum_ns
FROM sums
JOIN canonical.traces AS traces USING (trace_id)
ORDER BY sums.trace_id, sums.call_count DESC, sums.device_sum_ns DESC, sums.operator, sequence
