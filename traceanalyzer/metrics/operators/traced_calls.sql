-- One row per operator that a compiler ran on tensors without data: it is in the trace, but it computed nothing.
--
-- torch.compile follows a program with fake tensors, inside ranges of its compilation (Dynamo's timed phases), and inside
-- Python frames of its own where stacks were recorded. An operator there is real if a GPU operation was launched inside
-- it: the compiler measures kernels, too.
--
-- columns: trace_id
--   slice_id   BIGINT   the operator (host_slices.slice_id)
WITH phases AS MATERIALIZED (
    SELECT trace_id, thread_id, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    -- These texts are looked for once in each name of the file; what follows is asked of each slice that is left.
    WHERE (contains(name, 'dynamo') OR contains(name, 'frame_compile') OR contains(name, '_tensor.py('))
      AND CASE
        WHEN category IN ('cpu_op', 'annotation')
        THEN ends_with(name, ' (dynamo_timed)') OR contains(name, 'entire_frame_compile')
        WHEN category = 'python'
        THEN (
                contains(name, '/_dynamo/convert_frame.py(')
                OR contains(name, '/_subclasses/fake_tensor.py(')
                OR contains(name, '/experimental/proxy_tensor.py(')
            )
            AND regexp_matches(name, 'fake_tensor\.py|proxy_tensor\.py|convert_frame\.py\(\d+\): _?(compile|convert_frame)')
    END
    QUALIFY coalesce(
        start_ns + dur_ns > max(start_ns + dur_ns) OVER (
            PARTITION BY trace_id, thread_id
            ORDER BY start_ns, dur_ns DESC, slice_id
            ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ),
        TRUE
    )
),
inside AS (
    SELECT
        slices.trace_id, slices.slice_id, slices.thread_id, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns
    FROM (
        FROM canonical.host_slices
        WHERE category = 'cpu_op' AND contains(name, '::') AND trace_id IN (SELECT trace_id FROM phases)
    ) AS slices
    ASOF JOIN phases
        ON phases.trace_id = slices.trace_id
       AND phases.thread_id = slices.thread_id
       AND phases.start_ns <= slices.start_ns
    WHERE slices.start_ns + slices.dur_ns <= phases.end_ns
),
launches AS (
    SELECT ops.trace_id, calls.thread_id, calls.start_ns
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS calls
      ON calls.trace_id = ops.trace_id AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    WHERE ops.trace_id IN (SELECT trace_id FROM phases)
)
SELECT inside.trace_id, inside.slice_id
FROM inside
ASOF LEFT JOIN launches
    ON launches.trace_id = inside.trace_id
   AND launches.thread_id = inside.thread_id
   AND launches.start_ns >= inside.start_ns
WHERE launches.start_ns IS NULL OR launches.start_ns >= inside.end_ns
