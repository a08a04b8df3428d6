-- One row per call that sets CUDA up: creates a context, or loads code for the device.
--
-- The first call that needs a context creates it, whatever else it does. Where an export does not say when a context
-- was created, this is the first call of 30 ms or longer that needs one, if it comes ahead of all GPU work. Code is
-- loaded by calls of its own, and, where it is loaded lazily, inside the launch that needs it: each such record of the
-- driver is a row of its own.
--
-- empty without: (SELECT 1 FROM contexts UNION ALL SELECT 1 FROM canonical.traces WHERE recorder = 'nsys' UNION ALL
-- empty without: SELECT 1 FROM host_slices WHERE contains(name, 'Load') OR starts_with(name, 'cuLink') OR starts_with(name, 'urProgram'))
-- columns: trace, rank, trace_id
--   slice_id    BIGINT   the call, or the driver's record (host_slices.slice_id)
--   kind        VARCHAR  context or code
--   name        VARCHAR  its name, without the runtime's version
--   start_ns    BIGINT   start
--   dur_ns      BIGINT   duration; a context's is that of the whole call
--   call_id     BIGINT   the call that did it (host_slices.slice_id); equal to slice_id where it is the call itself
--   call        VARCHAR  name of this call
--   op_id       BIGINT   GPU work that this call launched, and that had to wait (gpu_ops.op_id); NULL: none
--   op          VARCHAR  its name
WITH creations AS (
    SELECT
        contexts.trace_id,
        arg_min(calls.slice_id, (calls.depth, calls.slice_id)) AS slice_id,
        'context' AS kind
    FROM contexts
    JOIN api_calls AS calls
      ON calls.trace_id = contexts.trace_id
     AND calls.start_ns <= contexts.created_ns
     AND calls.start_ns + calls.dur_ns > contexts.created_ns
    GROUP BY contexts.trace_id, contexts.context
),
-- Without the profiler's note: the first slow call that needs a context, ahead of all GPU work of the recording.
first_calls AS (
    SELECT calls.trace_id, arg_min(calls.slice_id, (calls.start_ns, calls.slice_id)) AS slice_id, 'context' AS kind
    FROM api_calls AS calls
    JOIN (SELECT trace_id, min(start_ns) AS first_ns FROM gpu_ops GROUP BY trace_id) AS firsts USING (trace_id)
    WHERE calls.start_ns + calls.dur_ns <= firsts.first_ns
      AND calls.dur_ns >= 30e6
      AND regexp_matches(calls.name, '^cu(da)?[A-Z]')
      -- Starting a profiler or the driver, asking what there is, and loading code need no context.
      AND NOT regexp_matches(calls.name, 'Profiler|ModuleLoad|LibraryLoad|^cuLink|^cuInit|^cu(da)?(Graph|GetDevice|Device(Can|Get)|Driver|Runtime)')
      AND calls.trace_id IN (SELECT trace_id FROM canonical.traces WHERE recorder = 'nsys')
      AND calls.trace_id NOT IN (SELECT trace_id FROM contexts WHERE created_ns IS NOT NULL)
    GROUP BY calls.trace_id
),
loads AS (
    SELECT loads.trace_id, loads.slice_id, 'code' AS kind
    FROM host_slices AS loads
    LEFT JOIN host_slices AS parents ON parents.trace_id = loads.trace_id AND parents.slice_id = loads.parent_id
    WHERE (
        contains(loads.name, 'ModuleLoad')
        OR contains(loads.name, 'LibraryLoad')
        OR starts_with(loads.name, 'cuLink')
        OR starts_with(loads.name, 'urProgram')
        OR contains(loads.name, 'Module Loading')
        OR contains(loads.name, 'Function Loading')
    ) AND ((
        loads.category IN ('runtime', 'driver')
        AND regexp_matches(loads.name, 'ModuleLoad|LibraryLoad|^cuLink(Add|Complete)|^urProgram(Build|Compile|Link)')
        AND NOT regexp_matches(coalesce(parents.name, ''), 'ModuleLoad|LibraryLoad|^cuLink|^urProgram')
    ) OR (
        loads.category = 'overhead'
        AND regexp_matches(loads.name, 'Module Loading|Function Loading')
        AND NOT regexp_matches(coalesce(parents.name, ''), 'Module Loading|Function Loading')
    ))
),
setups AS (
    SELECT * FROM creations
    UNION ALL
    SELECT * FROM first_calls
    UNION ALL
    SELECT * FROM loads ANTI JOIN creations USING (trace_id, slice_id)
),
called AS (
    SELECT
        setups.trace_id, setups.slice_id, setups.kind, slices.name, slices.start_ns, slices.dur_ns,
        calls.slice_id AS call_id, calls.name AS call
    FROM setups
    JOIN host_slices AS slices USING (trace_id, slice_id)
    LEFT JOIN api_calls AS calls
           ON calls.trace_id = slices.trace_id
          AND calls.slice_id = CASE WHEN slices.category = 'overhead' THEN slices.parent_id ELSE slices.slice_id END
),
-- A call may launch several operations, and a graph of them.
first_ops AS (
    SELECT trace_id, launch_id, arg_min(op_id, (start_ns, op_id)) AS op_id, arg_min(name, (start_ns, op_id)) AS name
    FROM gpu_ops
    WHERE launch_id IN (SELECT call_id FROM called)
    GROUP BY trace_id, launch_id
)
SELECT
    traces.trace, traces.rank, called.trace_id, called.slice_id, called.kind,
    regexp_replace(called.name, '_v[0-9]+$', '') AS name,
    called.start_ns, called.dur_ns, called.call_id,
    regexp_replace(called.call, '_v[0-9]+$', '') AS call,
    first_ops.op_id, first_ops.name AS op
FROM called
JOIN traces USING (trace_id)
LEFT JOIN first_ops ON first_ops.trace_id = called.trace_id AND first_ops.launch_id = called.call_id
ORDER BY called.trace_id, called.start_ns, called.slice_id
