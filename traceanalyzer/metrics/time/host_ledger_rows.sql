-- One row per stretch of a trace without GPU work in which the thread that runs its steps does one thing.
--
-- Where the machine has devices, the trace has events of an accelerator, or its file ends early and does not say that the
-- machine has no device, work may be missing, and there is no row: a wait for it would look like Python. Neither devices
-- nor the cut matter where operators show that the program ran on the CPU (runs_on_cpu).
--
-- The thread is the one with most marked steps (ProfilerStep#N, or XLA's step_num), else one that calls compiled programs of XLA
-- or TensorFlow, whose operators other threads run, else the one with most time in operators. The window is its steps, without the first
-- of four or more, which warms up; without marked steps it is the time from the first to
-- the last operator of the thread, or from its first call to the last operator of any. A step is left out where the recording stopped in it, or where a file that ends early has
-- no operator after it; where that leaves no step, there is no row. A marked step inside another one is a part of it, and one that PyTorch's profiler marks
-- ends where the call that ends it begins (prof.step, which may stop the recording). Each nanosecond of the window has
-- one bucket, the first of these that holds:
-- host.dataloader, inside the iterator of a DataLoader, or what is named after the next batch (waits_for_input);
-- host.compile, where torch.compile or XLA traces or compiles (compiles_program); host.comm_cpu, in a call that exchanges
-- data with other ranks, or in no operator while another thread of the process exchanges; host.op, inside an operator, or
-- in none while another thread is in one (XLA's thread pool) or while it runs a function of TensorFlow; host.python, in none of these, or in Python
-- that an operator calls (calls_python): the program's own code, and what was not recorded. While the thread runs a program of TensorFlow or XLA and no thread is in an operator, it also
-- waits for a thread that takes the next batch or compiles.
-- empty without: traces ANTI JOIN gpu_ops USING (trace_id)
--
-- columns: trace, rank, trace_id
--   thread_id   INTEGER  thread that runs the steps
--   step_count  BIGINT   steps in the window; 0: none are marked
--   window_ns   BIGINT   length of the window; the kept rows add up to it
--   start_ns    BIGINT   start
--   dur_ns      BIGINT   duration, above 0
--   kept        BOOLEAN  inside the window
--   bucket      VARCHAR  what the thread does
WITH host_traces AS (
    SELECT trace_id, trace, rank
    FROM traces
    ANTI JOIN gpu_ops USING (trace_id)
    ANTI JOIN (SELECT trace_id FROM async_slices WHERE category = 'accelerator') USING (trace_id)
    WHERE vendor IS NULL AND trace_id NOT IN (SELECT trace_id FROM canonical.devices)
          AND (NOT truncated OR trace_id IN (SELECT trace_id FROM metadata WHERE key = 'deviceProperties'))
       OR trace_id IN (SELECT trace_id FROM host_slices WHERE category = 'cpu_op' AND runs_on_cpu(name))
),
-- The step in which the recording stopped.
cut_steps AS (
    SELECT trace_id, event_id AS slice_id
    FROM event_args
    WHERE is_cut(args)
      AND (trace_id, event_id) IN (
          SELECT (trace_id, slice_id)
          FROM host_slices
          SEMI JOIN host_traces USING (trace_id)
          WHERE marks_step(category, raw_category, name)
      )
),
-- Steps that a file that ends early may not hold to their end: its operators are in the order of time.
late_steps AS (
    SELECT trace_id, marks.slice_id
    FROM host_slices AS marks
    JOIN (
        SELECT trace_id, max(ops.start_ns) AS last_op_ns
        FROM traces
        LEFT JOIN (FROM host_slices WHERE category = 'cpu_op') AS ops USING (trace_id)
        WHERE truncated
        GROUP BY trace_id
    ) USING (trace_id)
    WHERE marks_step(marks.category, marks.raw_category, marks.name)
      AND marks.start_ns + marks.dur_ns > coalesce(last_op_ns, 0)
),
profiler_calls AS (
    SELECT trace_id, thread_id, start_ns, start_ns + dur_ns AS end_ns
    FROM host_slices
    SEMI JOIN host_traces USING (trace_id)
    WHERE category = 'python' AND regexp_matches(name, 'torch/profiler/profiler\.py\(\d+\): step$')
),
whole_marks AS (
    SELECT trace_id, thread_id, start_ns, start_ns + dur_ns AS end_ns
    FROM host_slices
    SEMI JOIN host_traces USING (trace_id)
    ANTI JOIN cut_steps USING (trace_id, slice_id)
    ANTI JOIN late_steps USING (trace_id, slice_id)
    WHERE marks_step(category, raw_category, name)
),
ended_marks AS (
    SELECT
        whole_marks.trace_id, whole_marks.thread_id, whole_marks.start_ns,
        CASE
            WHEN calls.start_ns > whole_marks.start_ns AND calls.end_ns >= whole_marks.end_ns THEN calls.start_ns
            ELSE whole_marks.end_ns
        END AS end_ns
    FROM whole_marks
    ASOF LEFT JOIN profiler_calls AS calls
        ON calls.trace_id = whole_marks.trace_id
       AND calls.thread_id = whole_marks.thread_id
       AND calls.start_ns <= whole_marks.end_ns
),
marks AS (
    SELECT
        *,
        max(end_ns) OVER (
            PARTITION BY trace_id, thread_id ORDER BY start_ns, end_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS before_ns
    FROM ended_marks
),
marked AS (
    SELECT
        trace_id, thread_id,
        greatest(start_ns, before_ns) AS start_ns,
        end_ns,
        row_number() OVER (PARTITION BY trace_id, thread_id ORDER BY start_ns, end_ns) AS position,
        count(*) OVER (PARTITION BY trace_id, thread_id) AS step_count
    FROM marks
    WHERE before_ns IS NULL OR end_ns > before_ns
),
busy AS (
    SELECT
        trace_id, thread_id,
        min(start_ns) AS start_ns,
        if(bool_or(category <> 'cpu_op'), max(max(start_ns + dur_ns)) OVER (PARTITION BY trace_id), max(start_ns + dur_ns)) AS end_ns,
        bool_or(category <> 'cpu_op') AS calls_programs,
        sum(dur_ns) FILTER (WHERE op_id IS NULL) AS op_ns
    FROM host_slices
    SEMI JOIN host_traces USING (trace_id)
    ANTI JOIN late_steps USING (trace_id)
    WHERE category = 'cpu_op' OR category = 'other' AND regexp_matches(name, '^(FunctionRun$|PjitFunction\(|SyncTensorsGraph)')
    GROUP BY trace_id, thread_id
),
threads_with_steps AS (
    SELECT trace_id, arg_max(thread_id, (step_count, -thread_id)) AS thread_id
    FROM marked
    GROUP BY trace_id
),
step_threads AS (
    FROM threads_with_steps
    UNION ALL
    SELECT trace_id, arg_max(thread_id, (calls_programs, op_ns, -thread_id))
    FROM busy
    ANTI JOIN threads_with_steps USING (trace_id)
    GROUP BY trace_id
),
windows AS (
    SELECT trace_id, thread_id, start_ns, end_ns, 1 AS is_step
    FROM marked
    SEMI JOIN step_threads USING (trace_id, thread_id)
    WHERE position > 1 OR step_count < 4
    UNION ALL
    SELECT trace_id, thread_id, start_ns, end_ns, 0
    FROM busy
    SEMI JOIN step_threads USING (trace_id, thread_id)
    ANTI JOIN threads_with_steps USING (trace_id)
),
held AS (
    SELECT
        slices.trace_id, slices.start_ns,
        slices.start_ns + slices.dur_ns AS end_ns,
        CASE
            WHEN slices.thread_id <> step_threads.thread_id AND exchanges_on_host(slices.name) THEN 'exchange'
            WHEN slices.thread_id <> step_threads.thread_id AND waits_for_input(slices.category, slices.name) THEN 'loader elsewhere'
            WHEN slices.thread_id <> step_threads.thread_id AND compiles_program(slices.name) THEN 'compile elsewhere'
            WHEN slices.category = 'cpu_op' AND calls_python(slices.name) THEN if(slices.thread_id = step_threads.thread_id, 'callback', 'callback elsewhere')
            WHEN slices.thread_id <> step_threads.thread_id AND slices.category = 'cpu_op' THEN 'elsewhere'
            WHEN slices.thread_id <> step_threads.thread_id THEN NULL
            WHEN waits_for_input(slices.category, slices.name) THEN 'loader'
            WHEN compiles_program(slices.name) THEN 'compile'
            WHEN regexp_matches(slices.name, '^(FunctionRun$|EagerLocalExecute)') THEN 'function'
            WHEN regexp_matches(slices.name, '^(PjitFunction\(|SyncTensorsGraph)') THEN 'call'
            WHEN starts_with(slices.name, 'c10d::') OR exchanges_on_host(slices.name) THEN 'comm'
            WHEN slices.category = 'cpu_op' THEN 'op'  -- one that begins in another may end after it
        END AS what
    FROM host_slices AS slices
    JOIN step_threads USING (trace_id)
    WHERE slices.dur_ns > 0 AND slices.category IN ('cpu_op', 'annotation', 'python', 'other')
),
intervals AS (
    SELECT trace_id, start_ns, end_ns, what FROM held WHERE what IS NOT NULL
    UNION ALL
    SELECT trace_id, start_ns, end_ns, 'window' FROM windows
),
bounds AS (
    SELECT trace_id, what, unnest([start_ns, end_ns]) AS at_ns, unnest([1, -1]) AS opened
    FROM intervals
),
stretches AS (
    SELECT
        trace_id, at_ns AS start_ns,
        lead(at_ns) OVER later - at_ns AS dur_ns,
        coalesce(sum(sum(opened) FILTER (WHERE what = 'window')) OVER later > 0, FALSE) AS kept,
        CASE
            WHEN sum(sum(opened) FILTER (WHERE what = 'loader')) OVER later > 0 THEN 'host.dataloader'
            WHEN sum(sum(opened) FILTER (WHERE what = 'compile')) OVER later > 0 THEN 'host.compile'
            WHEN sum(sum(opened) FILTER (WHERE what = 'comm')) OVER later > 0 THEN 'host.comm_cpu'
            WHEN sum(sum(opened) FILTER (WHERE what = 'callback')) OVER later > 0 THEN 'host.python'
            WHEN sum(sum(opened) FILTER (WHERE what = 'op')) OVER later > 0 THEN 'host.op'
            WHEN sum(sum(opened) FILTER (WHERE what = 'exchange')) OVER later > 0 THEN 'host.comm_cpu'
            WHEN sum(sum(opened) FILTER (WHERE what = 'elsewhere')) OVER later > 0 THEN 'host.op'
            WHEN sum(sum(opened) FILTER (WHERE what IN ('call', 'function'))) OVER later > 0
             AND sum(sum(opened) FILTER (WHERE what = 'loader elsewhere')) OVER later > 0
            THEN 'host.dataloader'
            WHEN sum(sum(opened) FILTER (WHERE what IN ('call', 'function'))) OVER later > 0
             AND sum(sum(opened) FILTER (WHERE what = 'compile elsewhere')) OVER later > 0
            THEN 'host.compile'
            WHEN sum(sum(opened) FILTER (WHERE what = 'callback elsewhere')) OVER later > 0 THEN 'host.python'
            WHEN sum(sum(opened) FILTER (WHERE what = 'function')) OVER later > 0 THEN 'host.op'
            ELSE 'host.python'
        END AS bucket
    FROM bounds
    GROUP BY trace_id, at_ns
    WINDOW later AS (PARTITION BY trace_id ORDER BY at_ns)
),
totals AS (
    SELECT trace_id, any_value(thread_id) AS thread_id, sum(is_step) AS step_count, sum(end_ns - start_ns) AS window_ns
    FROM windows
    GROUP BY trace_id
)
SELECT
    host_traces.trace, host_traces.rank, stretches.trace_id, totals.thread_id,
    totals.step_count::BIGINT AS step_count,
    totals.window_ns::BIGINT AS window_ns,
    stretches.start_ns, stretches.dur_ns, stretches.kept, stretches.bucket
FROM stretches
JOIN totals USING (trace_id)
JOIN host_traces USING (trace_id)
WHERE stretches.dur_ns > 0
ORDER BY stretches.trace_id, stretches.start_ns
