-- One row per GPU operation that a call of modelled_calls launched: on its thread, while it ran, or in a replayed graph.
--
-- columns: trace_id
--   op_id     BIGINT   gpu_ops.op_id
--   device    INTEGER  device
--   slice_id  BIGINT   the call (modelled_calls.slice_id)
WITH RECURSIVE launches AS (
    SELECT ops.trace_id, ops.op_id, ops.device, calls.thread_id, calls.start_ns
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS calls
      ON calls.trace_id = ops.trace_id AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    ANTI JOIN attribution.captured_owners AS captured
           ON captured.trace_id = ops.trace_id AND captured.op_id = ops.op_id AND captured.call_id IS NOT NULL
),
-- From the innermost operator outwards: each operation of a graph, with the calls around it.
climbing AS (
    SELECT trace_id, op_id, call_id
    FROM attribution.captured_owners
    WHERE call_id IS NOT NULL
    UNION ALL
    SELECT climbing.trace_id, climbing.op_id, around.parent_id
    FROM climbing
    JOIN attribution.captured_calls AS around USING (trace_id, call_id)
    WHERE around.parent_id < 0
)
SELECT launches.trace_id, launches.op_id, launches.device, calls.slice_id
FROM launches
ASOF JOIN modelled_calls AS calls
    ON calls.trace_id = launches.trace_id
   AND calls.thread_id = launches.thread_id
   AND calls.start_ns <= launches.start_ns
WHERE launches.start_ns < calls.end_ns
UNION ALL
SELECT climbing.trace_id, climbing.op_id, ops.device, calls.slice_id
FROM climbing
JOIN modelled_calls AS calls ON calls.trace_id = climbing.trace_id AND calls.slice_id = climbing.call_id
JOIN canonical.gpu_ops AS ops ON ops.trace_id = climbing.trace_id AND ops.op_id = climbing.op_id
