-- One row per launch that the host recorded into a graph: what it launches there, and for which operator, module and line.
--
-- Captures are those of graph_captures, and those in files beside the traces that hold nothing else (capture_files). The
-- launches of one are numbered in the order of their calls; of calls inside each other, the outermost counts. A launch
-- that ran has its operation in the trace and is none.
--
-- columns:
--   trace         VARCHAR  name of the trace or capture
--   rank          INTEGER  rank in the job
--   trace_id      INTEGER  traces.trace_id, or capture_files.capture_id
--   capture       BIGINT   number of the capture in its file, by start, from 1
--   position      BIGINT   number of the launch in its capture, from 1
--   launch_id     BIGINT   the call (host_slices.slice_id or capture_slices.slice_id)
--   kind          VARCHAR  kernel, memcpy or memset
--   kernel        VARCHAR  kernel that the call names; NULL: the profiler did not record it, or a copy
--   operator      VARCHAR  innermost operator around the call
--   input_shapes  VARCHAR  shapes of its inputs, a JSON list; NULL: not recorded
--   module        VARCHAR  innermost module around the call
--   python        VARCHAR  innermost line of Python around the call, as in python_lines: file(line): function
--   annotation    VARCHAR  innermost annotation around the call
WITH RECURSIVE
-- recorded_slices() reads host_slices and capture_slices.
marks AS (
    SELECT
        owner_id, thread_id, start_ns,
        start_ns + dur_ns AS end_ns,
        slice_id,
        contains(name, 'StreamEndCapture') OR contains(name, 'capture_end') AS is_end
    FROM recorded_slices()
    WHERE contains(name, 'Capture') AND category IN ('runtime', 'driver') AND regexp_matches(name, 'Stream(Begin|End)Capture')
       -- PyTorch's function, where the profiler left the calls out.
       OR contains(name, 'capture_') AND category = 'python' AND regexp_matches(name, 'torch/cuda/graphs.py.*: capture_(begin|end)$')
),
followed AS (
    SELECT *, lead(is_end) OVER following AS is_next_end, lead(end_ns) OVER following AS next_end_ns
    FROM marks
    WINDOW following AS (PARTITION BY owner_id, thread_id ORDER BY start_ns, slice_id)
),
captures AS MATERIALIZED (
    SELECT
        owner_id, thread_id, start_ns, next_end_ns AS end_ns,
        row_number() OVER (PARTITION BY owner_id ORDER BY start_ns, thread_id) AS capture
    FROM followed
    WHERE NOT is_end AND is_next_end
),
owners AS (
    SELECT trace_id AS owner_id, trace, rank
    FROM canonical.traces
    UNION ALL
    SELECT capture_id, trace, rank
    FROM canonical.capture_files
),
-- The calls of threads that capture; a trace without captures is read no further.
calls AS MATERIALIZED (
    SELECT
        owner_id, thread_id, slice_id, parent_id, op_id, python_id, module_id, annotation_id, start_ns,
        CASE
            WHEN calls_to(name, 'launch') THEN 'kernel'
            WHEN calls_to(name, 'copy') THEN 'memcpy'
            WHEN calls_to(name, 'fill') THEN 'memset'
        END AS kind
    FROM recorded_slices()
    SEMI JOIN captures USING (owner_id, thread_id)
    WHERE category IN ('runtime', 'driver') AND kind IS NOT NULL
),
inside AS MATERIALIZED (
    SELECT captures.capture, calls.*
    FROM captures
    JOIN calls
      ON calls.owner_id = captures.owner_id
     AND calls.thread_id = captures.thread_id
     AND calls.start_ns >= captures.start_ns
     AND calls.start_ns < captures.end_ns
    ANTI JOIN calls AS around ON around.owner_id = calls.owner_id AND around.slice_id = calls.parent_id
),
ran AS (
    SELECT trace_id AS owner_id, launch_id AS slice_id
    FROM canonical.gpu_ops
    SEMI JOIN inside ON inside.owner_id = gpu_ops.trace_id AND inside.slice_id = gpu_ops.launch_id
    UNION ALL
    SELECT capture_id, launch_id
    FROM canonical.capture_ops
    SEMI JOIN inside ON inside.owner_id = capture_ops.capture_id AND inside.slice_id = capture_ops.launch_id
),
captured AS MATERIALIZED (
    FROM inside
    ANTI JOIN ran USING (owner_id, slice_id)
),
arguments AS (
    SELECT trace_id AS owner_id, event_id, args
    FROM canonical.event_args
    SEMI JOIN captured ON captured.owner_id = event_args.trace_id AND captured.slice_id = event_args.event_id
    WHERE contains(args, '"kernel"')
    UNION ALL
    SELECT capture_id, event_id, args
    FROM canonical.capture_args
    SEMI JOIN captured ON captured.owner_id = capture_args.capture_id AND captured.slice_id = capture_args.event_id
    WHERE contains(args, '"kernel"')
),
around AS MATERIALIZED (
    SELECT owner_id, slice_id, name, input_shapes
    FROM recorded_slices()
    SEMI JOIN (
        SELECT owner_id, unnest([op_id, module_id, annotation_id]) AS slice_id
        FROM captured
    ) AS named USING (owner_id, slice_id)
),
-- From the frame around each call outwards, to the first that is a line.
climbing AS (
    SELECT owner_id, python_id AS first_id, python_id AS frame_id
    FROM captured
    WHERE python_id IS NOT NULL
    UNION
    SELECT climbing.owner_id, climbing.first_id, frames.python_id
    FROM climbing
    JOIN recorded_slices() AS frames ON frames.owner_id = climbing.owner_id AND frames.slice_id = climbing.frame_id
    WHERE frames.python_id IS NOT NULL AND NOT is_python_line(frames.name)
),
lines AS (
    SELECT climbing.owner_id, climbing.first_id, frames.name
    FROM climbing
    JOIN recorded_slices() AS frames ON frames.owner_id = climbing.owner_id AND frames.slice_id = climbing.frame_id
    WHERE is_python_line(frames.name)
)
SELECT
    traces.trace, traces.rank, captured.owner_id AS trace_id, captured.capture,
    row_number() OVER (
        PARTITION BY captured.owner_id, captured.capture
        ORDER BY captured.start_ns, captured.slice_id
    ) AS position,
    captured.slice_id AS launch_id, captured.kind,
    CASE WHEN captured.kind = 'kernel' THEN json_extract_string(event_args.args, '$.kernel') END AS kernel,
    operator.name AS operator, operator.input_shapes,
    replace(module.name, 'nn.Module: ', '') AS module,
    python.name AS python, annotation.name AS annotation
FROM captured
JOIN owners AS traces USING (owner_id)
LEFT JOIN arguments AS event_args ON event_args.owner_id = captured.owner_id AND event_args.event_id = captured.slice_id
LEFT JOIN around AS operator ON operator.owner_id = captured.owner_id AND operator.slice_id = captured.op_id
LEFT JOIN around AS module ON module.owner_id = captured.owner_id AND module.slice_id = captured.module_id
LEFT JOIN lines AS python ON python.owner_id = captured.owner_id AND python.first_id = captured.python_id
LEFT JOIN around AS annotation ON annotation.owner_id = captured.owner_id AND annotation.slice_id = captured.annotation_id
ORDER BY captured.owner_id, captured.capture, position
