-- One row per iteration of an inference engine: what it computed, and how long the device worked for it.
--
-- vLLM, SGLang and ATOM write an annotation a forward pass: execute_T_context_C(sqA skB sqsqD sqskE)_generation_G(…) has T
-- tokens; C requests in prefill with A new tokens, B tokens of context, and the sums of squares and products D and E; and
-- G requests in decode likewise. Older versions write the tokens alone, or A_D. SGLang's step[EXTEND bs=… toks=…] may lie
-- inside one: then it is not outermost, and counts the same work again; in its step[DECODE bs=…] each request computes one
-- token. TensorRT-LLM writes [Executor] _forward_step N: C ctx reqs, A ctx tokens, G gen reqs; how many tokens its decode
-- computes depends on speculation, and is not there. The host runs ahead of the device, so the latency of an iteration is
-- the device's time: from the start of its first to the end of its last GPU operation, counting those that were launched
-- inside the annotation. A prefill gives at most one token a request: with chunks, the trace does not show which prompts
-- end. Time to first token and latency between tokens of a request are not in a trace.
--
-- empty without: canonical.host_slices WHERE starts_with(name, 'execute_') OR starts_with(name, 'step[')
-- empty without: OR starts_with(name, '[Executor] _forward_step')
-- columns: trace, rank, trace_id
--   slice_id             BIGINT   the annotation (host_slices.slice_id)
--   is_outermost         BOOLEAN  no other iteration contains it
--   name                 VARCHAR  annotation, as written
--   kind                 VARCHAR  prefill, decode or mixed; NULL: not recorded
--   context_requests     BIGINT   requests in prefill
--   generation_requests  BIGINT   requests in decode
--   tokens               BIGINT   tokens that it computes; NULL: not recorded
--   context_tokens       BIGINT   tokens among them of requests in prefill
--   generation_tokens    BIGINT   tokens among them of requests in decode
--   new_tokens_at_most   BIGINT   tokens that it may give to requests
--   attention_pairs      BIGINT   pairs of a token and a token before it or itself, over all requests; windowed or sparse
--                                 attention has fewer; NULL: not recorded
--   host_start_ns        BIGINT   start of the annotation
--   host_dur_ns          BIGINT   duration of the annotation
--   device               INTEGER  device of its work; NULL: it launched none
--   op_count             BIGINT   GPU operations launched inside
--   first_wait_ns        BIGINT   from the start of the annotation to the start of the first of them
--   start_ns             BIGINT   start of the first of them
--   span_ns              BIGINT   from there to the end of the last of them
--   busy_ns              BIGINT   time in which at least one of them runs
--   gap_before_ns        BIGINT   from the end of the last operation of the outermost iteration before to the start of the
--                                 first of this one, on the device; negative: they overlap; NULL: it is the first
WITH named AS (
    SELECT
        trace_id, thread_id, slice_id, name, start_ns,
        start_ns + dur_ns AS end_ns,
        dur_ns,
        regexp_extract(
            name,
            '^execute_(\d+_)?context_(\d+)\((?:sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)|(\d+)(?:_\d+)?)\)'
            || '_generation_(\d+)\((?:sq(\d+)sk(\d+)sqsq(\d+)sqsk(\d+)|(\d+)(?:_\d+)?)\)',
            ['t', 'c', 'ca', 'cb', 'cd', 'ce', 'ca_only', 'g', 'ga', 'gb', 'gd', 'ge', 'ga_only']
        ) AS counts,
        regexp_extract(name, '^step\[(\w+) bs=(\d+)(?: toks=(\d+))?\]', ['mode', 'bs', 'toks']) AS step_counts,
        regexp_extract(
            name,
            '^\[Executor\] _forward_step[^:]*: (\d+) ctx reqs, (?:(\d+) ctx tokens, )?(\d+) gen reqs',
            ['c', 'ca', 'g']
        ) AS executor_counts
    FROM canonical.host_slices
    WHERE category IN ('annotation', 'cpu_op')
      -- DuckDB looks for plain texts in the file itself: few rows that have none are taken out of it.
      AND (starts_with(name, 'execute_') OR starts_with(name, 'step[') OR starts_with(name, '[Executor] _forward_step'))
      AND regexp_matches(name, '^execute_(\d+_)?context_\d|^step\[[A-Z_]+\b|^\[Executor\] _forward_step')
),
numbers AS (
    SELECT
        * EXCLUDE (counts, step_counts, executor_counts),
        coalesce(
            TRY_CAST(counts.c AS BIGINT),
            TRY_CAST(executor_counts.c AS BIGINT),
            CASE step_counts."mode" WHEN 'EXTEND' THEN TRY_CAST(step_counts.bs AS BIGINT) WHEN 'DECODE' THEN 0 END
        ) AS context_requests,
        coalesce(
            TRY_CAST(counts.g AS BIGINT),
            TRY_CAST(executor_counts.g AS BIGINT),
            CASE step_counts."mode" WHEN 'DECODE' THEN TRY_CAST(step_counts.bs AS BIGINT) WHEN 'EXTEND' THEN 0 END
        ) AS generation_requests,
        coalesce(
            TRY_CAST(counts.ca AS BIGINT),
            TRY_CAST(counts.ca_only AS BIGINT),
            TRY_CAST(executor_counts.ca AS BIGINT),
            CASE
                WHEN step_counts."mode" = 'EXTEND' THEN TRY_CAST(step_counts.toks AS BIGINT)
                WHEN step_counts."mode" = 'DECODE' OR executor_counts.c = '0' THEN 0
            END
        ) AS context_tokens,
        coalesce(
            TRY_CAST(counts.ga AS BIGINT),
            TRY_CAST(counts.ga_only AS BIGINT),
            CASE
                WHEN step_counts."mode" = 'DECODE'
                THEN coalesce(TRY_CAST(step_counts.toks AS BIGINT), TRY_CAST(step_counts.bs AS BIGINT))
                WHEN step_counts."mode" = 'EXTEND' OR executor_counts.g = '0' THEN 0
            END
        ) AS generation_tokens,
        coalesce(
            TRY_CAST(rtrim(counts.t, '_') AS BIGINT),
            TRY_CAST(step_counts.toks AS BIGINT),
            context_tokens + generation_tokens
        ) AS tokens,
        TRY_CAST(counts.ce AS BIGINT) - (TRY_CAST(counts.cd AS BIGINT) - TRY_CAST(counts.ca AS BIGINT)) // 2
        + TRY_CAST(counts.ge AS BIGINT) - (TRY_CAST(counts.gd AS BIGINT) - TRY_CAST(counts.ga AS BIGINT)) // 2 AS attention_pairs,
        coalesce(
            end_ns > max(end_ns) OVER (
                PARTITION BY trace_id, thread_id
                ORDER BY start_ns, end_ns DESC, slice_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ),
            TRUE
        ) AS is_outermost
    FROM named
),
launches AS MATERIALIZED (
    SELECT
        ops.trace_id, ops.op_id, ops.device, ops.start_ns,
        ops.start_ns + ops.dur_ns AS end_ns,
        calls.thread_id, calls.start_ns AS call_ns,
        unnest([TRUE, FALSE]) AS is_outermost
    FROM canonical.gpu_ops AS ops
    JOIN canonical.host_slices AS calls
      ON calls.trace_id = ops.trace_id AND calls.slice_id = coalesce(ops.launch_id, ops.cpu_op_id)
    WHERE EXISTS (FROM numbers WHERE numbers.trace_id = ops.trace_id)
),
owned AS (
    SELECT
        launches.*,
        numbers.slice_id,
        uncovered_ns(
            launches.start_ns, launches.end_ns,
            max(launches.end_ns) OVER (
                PARTITION BY launches.trace_id, numbers.slice_id
                ORDER BY launches.start_ns, launches.end_ns, launches.op_id
                ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            )
        ) AS added_ns
    FROM launches
    ASOF JOIN numbers
        ON numbers.trace_id = launches.trace_id
       AND numbers.thread_id = launches.thread_id
       AND numbers.is_outermost = launches.is_outermost
       AND numbers.start_ns <= launches.call_ns
    WHERE launches.call_ns < numbers.end_ns
),
work AS (
    SELECT
        trace_id, slice_id,
        arg_min(device, start_ns) AS device,
        count(*) AS op_count,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns,
        CAST(sum(added_ns) AS BIGINT) AS busy_ns
    FROM owned
    GROUP BY trace_id, slice_id
)
SELECT
    traces.trace, traces.rank, numbers.trace_id, numbers.slice_id, numbers.is_outermost, numbers.name,
    CASE
        WHEN context_requests = 0 AND generation_requests > 0 THEN 'decode'
        WHEN generation_requests = 0 AND context_requests > 0 THEN 'prefill'
        WHEN generation_requests > 0 THEN 'mixed'
    END AS kind,
    context_requests, generation_requests, tokens, context_tokens, generation_tokens,
    generation_requests + context_requests AS new_tokens_at_most,
    attention_pairs, numbers.start_ns AS host_start_ns, numbers.dur_ns AS host_dur_ns, work.device,
    coalesce(work.op_count, 0) AS op_count,
    work.start_ns - numbers.start_ns AS first_wait_ns,
    work.start_ns,
    work.end_ns - work.start_ns AS span_ns,
    work.busy_ns,
    CASE
        WHEN numbers.is_outermost
        THEN work.start_ns - lag(work.end_ns) OVER (
            PARTITION BY numbers.trace_id, work.device, numbers.is_outermost
            ORDER BY work.start_ns, numbers.slice_id
        )
    END AS gap_before_ns
FROM numbers
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN work ON work.trace_id = numbers.trace_id AND work.slice_id = numbers.slice_id
ORDER BY numbers.trace_id, numbers.start_ns, numbers.slice_id
