-- One row per launch that the host recorded into a graph: what it launches there, and for which operator, module and line.
--
-- Captures are those of graph_captures. The launches of one are numbered in the order of their calls; of calls inside
-- each other, the outermost counts. A launch that ran has its operation in the trace and is none.
--
-- columns:
--   trace         VARCHAR  name of the trace
--   rank          INTEGER  rank in the job
--   trace_id      INTEGER  traces.trace_id
--   capture       BIGINT   number of the capture in its trace, by start, from 1
--   position      BIGINT   number of the launch in its capture, from 1
--   launch_id     BIGINT   the call (host_slices.slice_id)
--   kind          VARCHAR  kernel, memcpy or memset
--   kernel        VARCHAR  kernel that the call names; NULL: the profiler did not record it, or a copy
--   operator      VARCHAR  innermost operator around the call
--   input_shapes  VARCHAR  shapes of its inputs, a JSON list; NULL: not recorded
--   module        VARCHAR  innermost module around the call
--   python        VARCHAR  innermost line of Python around the call, as in python_lines: file(line): function
--   annotation    VARCHAR  innermost annotation around the call
WITH RECURSIVE
captures AS (
    SELECT
        trace_id,
        thread_id,
        start_ns,
        end_ns,
        row_number() OVER (PARTITION BY trace_id ORDER BY start_ns, thread_id) AS capture
    FROM graph_captures
),
calls AS (
    SELECT
        trace_id,
        thread_id,
        slice_id,
        parent_id,
        op_id,
        python_id,
        module_id,
        annotation_id,
        start_ns,
        CASE
            WHEN regexp_matches(name, '^(cuda|hip|cu)[A-Za-z]*Launch[A-Za-z]*Kernel') THEN 'kernel'
            WHEN regexp_matches(name, '^(cuda|hip|cu)Memcpy') THEN 'memcpy'
            WHEN regexp_matches(name, '^(cuda|hip|cu)Memset') THEN 'memset'
        END AS kind
    FROM canonical.host_slices
    WHERE category IN ('runtime', 'driver')
      AND kind IS NOT NULL
),
captured AS (
    SELECT captures.capture, calls.*
    FROM captures
    JOIN calls
      ON calls.trace_id = captures.trace_id
     AND calls.thread_id = captures.thread_id
     AND calls.start_ns >= captures.start_ns
     AND calls.start_ns < captures.end_ns
    ANTI JOIN calls AS around
           ON around.trace_id = calls.trace_id AND around.slice_id = calls.parent_id
    ANTI JOIN (FROM canonical.gpu_ops WHERE launch_id IS NOT NULL) AS ran
           ON ran.trace_id = calls.trace_id AND ran.launch_id = calls.slice_id
),
-- From the frame around each call outwards, to the first that is a line.
climbing AS (
    SELECT trace_id, python_id AS first_id, python_id AS frame_id
    FROM captured
    WHERE python_id IS NOT NULL
    UNION
    SELECT climbing.trace_id, climbing.first_id, frames.python_id
    FROM climbing
    JOIN canonical.host_slices AS frames
      ON frames.trace_id = climbing.trace_id AND frames.slice_id = climbing.frame_id
    WHERE frames.python_id IS NOT NULL
      AND NOT is_python_line(frames.name)
),
lines AS (
    SELECT climbing.trace_id, climbing.first_id, frames.name
    FROM climbing
    JOIN canonical.host_slices AS frames
      ON frames.trace_id = climbing.trace_id AND frames.slice_id = climbing.frame_id
    WHERE is_python_line(frames.name)
)
SELECT
    traces.trace,
    traces.rank,
    captured.trace_id,
    captured.capture,
    row_number() OVER (
        PARTITION BY captured.trace_id, captured.capture
        ORDER BY captured.start_ns, captured.slice_id
    ) AS position,
    captured.slice_id AS launch_id,
    captured.kind,
    CASE WHEN captured.kind = 'kernel' THEN json_extract_string(event_args.args, '$.kernel') END AS kernel,
    operator.name AS operator,
    operator.input_shapes,
    replace(module.name, 'nn.Module: ', '') AS module,
    python.name AS python,
    annotation.name AS annotation
FROM captured
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN canonical.event_args AS event_args
       ON event_args.trace_id = captured.trace_id AND event_args.event_id = captured.slice_id
LEFT JOIN canonical.host_slices AS operator
       ON operator.trace_id = captured.trace_id AND operator.slice_id = captured.op_id
LEFT JOIN canonical.host_slices AS module
       ON module.trace_id = captured.trace_id AND module.slice_id = captured.module_id
LEFT JOIN lines AS python ON python.trace_id = captured.trace_id AND python.first_id = captured.python_id
LEFT JOIN canonical.host_slices AS annotation
       ON annotation.trace_id = captured.trace_id AND annotation.slice_id = captured.annotation_id
ORDER BY captured.trace_id, captured.capture, position
