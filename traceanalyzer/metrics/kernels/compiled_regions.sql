-- One row per trace and compiled region or Inductor graph: how often torch.compile's code ran, and its work on the device.
--
-- Region F/R is the code of frame F after R recompilations: R above 0 means that Dynamo compiled the frame again. An
-- Inductor graph is known by the hash of its code. The graphs of a region are rows of their own: do not add them to it.
--
-- columns: trace, rank
--   kind             VARCHAR  region or graph
--   name             VARCHAR  F/R of a region, hash of a graph
--   recompile_count  BIGINT   R of a region; NULL: a graph
--   call_count       BIGINT   calls
--   host_sum_ns      BIGINT   sum of their durations on the host
--   op_count         BIGINT   GPU operations launched inside
--   op_sum_ns        BIGINT   sum of their durations
--   triton_count     BIGINT   kernels among them that are written in Triton
WITH calls AS (
    SELECT
        trace_id, thread_id, start_ns,
        start_ns + dur_ns AS end_ns,
        dur_ns,
        if(starts_with(name, 'Torch-Compiled Region'), 'region', 'graph') AS kind,
        regexp_extract(name, '^(Torch-Compiled Region: |## Call CompiledFxGraph )(\S+)', 2) AS name
    FROM canonical.host_slices
    -- Prefixes first: few of all host slices need the pattern.
    WHERE (starts_with(name, 'Torch-Compiled Region: ') OR starts_with(name, '## Call CompiledFxGraph '))
      AND regexp_matches(name, '^Torch-Compiled Region: \S|^## Call CompiledFxGraph \S')
),
launches AS (
    SELECT
        ops.trace_id, ops.name AS op_name, ops.dur_ns AS op_ns, around.thread_id, around.start_ns AS call_ns,
        unnest(['region', 'graph']) AS kind
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS around
      ON around.trace_id = ops.trace_id AND around.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    WHERE EXISTS (FROM calls WHERE calls.trace_id = ops.trace_id)
),
work AS (
    SELECT
        launches.trace_id, launches.kind, calls.name,
        count(*) AS op_count,
        sum(launches.op_ns) AS op_sum_ns,
        count(*) FILTER (WHERE starts_with(launches.op_name, 'triton_')) AS triton_count
    FROM launches
    ASOF JOIN calls
        ON calls.trace_id = launches.trace_id
       AND calls.thread_id = launches.thread_id
       AND calls.kind = launches.kind
       AND calls.start_ns <= launches.call_ns
    WHERE launches.call_ns < calls.end_ns
    GROUP BY launches.trace_id, launches.kind, calls.name
),
called AS (
    SELECT trace_id, kind, name, count(*) AS call_count, sum(dur_ns) AS host_sum_ns
    FROM calls
    GROUP BY trace_id, kind, name
)
SELECT
    traces.trace, traces.rank, called.kind, called.name,
    CASE WHEN called.kind = 'region' THEN TRY_CAST(string_split(called.name, '/')[2] AS BIGINT) END AS recompile_count,
    called.call_count,
    CAST(called.host_sum_ns AS BIGINT) AS host_sum_ns,
    coalesce(work.op_count, 0) AS op_count,
    CAST(coalesce(work.op_sum_ns, 0) AS BIGINT) AS op_sum_ns,
    coalesce(work.triton_count, 0) AS triton_count
FROM called
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN work USING (trace_id, kind, name)
ORDER BY called.trace_id, called.kind DESC, called.host_sum_ns DESC, called.name
