-- One row per host call that returns only after the device has finished something: synchronisations, synchronous
-- copies.
--
-- The record decides whether a copy blocks, not the call's name: it does if the call returns after the copy. An
-- asynchronous call of 20 us or less only enqueues. `.item()` makes an asynchronous copy to pageable memory, which blocks,
-- and the cudaStreamSynchronize after it finds nothing left to wait for. A copy to the device also blocks if the call
-- returns in the second half of the copy: the driver has then staged its last part.
--
-- PyTorch waits for a copy with two calls in a row: the copy, then a synchronisation of its stream. Where no operator is
-- around them, the synchronisation belongs to the copy if it is the next call of its thread.
--
-- A thread that asks three times or more, within 1 ms each and with no other call between, whether work is done, until it
-- is, waits for it: these calls (cudaEventQuery, cudaStreamQuery and HIP's) are one row, from the first to the end of the
-- last.
--
-- columns: trace, rank, trace_id
--   call_id      BIGINT   the call (host_slices.slice_id); of calls that ask again and again, the first
--   wait_id      BIGINT   operator around the call, else the copy call right before it, else the call
--   kind         VARCHAR  device, stream or event: synchronisation; read_back: copy to the host; copy: synchronous copy
--   call         VARCHAR  name of the call, without the version that nsys appends
--   operator     VARCHAR  innermost operator around the call, without the name of its overload; NULL: none
--   annotation   VARCHAR  innermost annotation around the call; NULL: none
--   python       VARCHAR  innermost Python frame around the call; NULL: none
--   exchange     VARCHAR  MPI or gloo call that is the next call of its thread: what it sends, the wait is for; NULL:
--                         another call is
--   start_ns     BIGINT   start
--   dur_ns       BIGINT   duration
WITH copies AS (
    SELECT
        trace_id, launch_id AS call_id,
        bool_or(copy_kind = 'DtoH') AS is_read_back,
        max(start_ns + dur_ns) AS copied_ns,
        max(start_ns + CASE copy_kind WHEN 'HtoD' THEN dur_ns / 2 ELSE dur_ns END) AS staged_ns
    FROM gpu_ops
    WHERE kind = 'memcpy' AND launch_id IS NOT NULL
    GROUP BY trace_id, launch_id
),
calls AS (
    SELECT
        slices.trace_id, slices.thread_id, slices.slice_id, slices.parent_id, slices.op_id, slices.annotation_id,
        slices.python_id, slices.name, slices.start_ns, slices.dur_ns,
        CASE
            WHEN calls_to(slices.name, 'wait for a device') THEN 'device'
            WHEN calls_to(slices.name, 'wait for a stream') THEN 'stream'
            WHEN calls_to(slices.name, 'wait for an event') THEN 'event'
            -- An asynchronous call shorter than 20 µs only enqueues the copy; the two clocks differ by up to 2 µs.
            WHEN slices.dur_ns <= 20000 AND (slices.name LIKE '%Async%' OR slices.start_ns + slices.dur_ns < copies.copied_ns)
            THEN NULL
            WHEN copies.is_read_back AND slices.start_ns + slices.dur_ns >= copies.copied_ns - 2000 THEN 'read_back'
            WHEN slices.name NOT LIKE '%Async%' AND slices.start_ns + slices.dur_ns >= least(copies.copied_ns - 2000, copies.staged_ns)
            THEN 'copy'
        END AS kind,
        copies.call_id AS copying_id,
        if(exchanges_on_host(slices.name), slices.name, NULL) AS exchanged
    FROM host_slices AS slices
    LEFT JOIN copies ON copies.trace_id = slices.trace_id AND copies.call_id = slices.slice_id
    WHERE slices.category IN ('runtime', 'driver') OR exchanges_on_host(slices.name)
),
-- All calls are sorted, so apart from the rest of their rows.
neighbours AS (
    SELECT
        trace_id, slice_id,
        lag(copying_id) OVER calls_of_thread AS copy_before_id,
        lead(exchanged) OVER calls_of_thread AS exchange
    FROM (SELECT trace_id, thread_id, slice_id, start_ns, copying_id, exchanged FROM calls)
    WINDOW calls_of_thread AS (PARTITION BY trace_id, thread_id ORDER BY start_ns, slice_id)
),
-- A call of the runtime that waits may contain the driver's, which is the same wait.
waits AS MATERIALIZED (
    SELECT *, regexp_replace(name, '_v[0-9]+$', '') AS call
    FROM calls
    JOIN neighbours USING (trace_id, slice_id)
    ANTI JOIN (SELECT trace_id, slice_id AS parent_id FROM calls WHERE kind IS NOT NULL) AS around USING (trace_id, parent_id)
    WHERE kind IS NOT NULL
),
-- Materialized: else DuckDB hashes the calls of long traces by their thread, of which there are few.
asking_threads AS MATERIALIZED (
    SELECT trace_id, thread_id
    FROM api_calls
    WHERE calls_to(name, 'ask')
    GROUP BY trace_id, thread_id
    HAVING count(*) >= 3
),
acting AS (
    SELECT
        slices.*,
        start_ns + dur_ns AS end_ns,
        category <> 'cpu_op' AND calls_to(name, 'ask') AS asks,
        asks
            AND coalesce(lag(asks) OVER calls_of_thread, FALSE)
            AND start_ns - lag(start_ns + dur_ns) OVER calls_of_thread <= 1000000 AS goes_on
    FROM host_slices AS slices
    SEMI JOIN asking_threads USING (trace_id, thread_id)
    WHERE category IN ('runtime', 'driver', 'cpu_op')
    WINDOW calls_of_thread AS (PARTITION BY slices.trace_id, slices.thread_id ORDER BY slices.start_ns, slices.slice_id)
),
asked AS (
    SELECT *, count_if(NOT goes_on) OVER (
        PARTITION BY trace_id, thread_id ORDER BY start_ns, slice_id ROWS UNBOUNDED PRECEDING
    ) AS series
    FROM acting
),
-- What was asked for was not done when the call before the last one began; a call may contain the driver's.
polls AS (
    SELECT
        trace_id, thread_id,
        min(start_ns) AS first_ns,
        max(end_ns) AS last_ns,
        list(start_ns ORDER BY start_ns)[-3] AS open_until_ns,
        arg_min(slice_id, (start_ns, slice_id)) AS slice_id
    FROM asked
    WHERE asks
    GROUP BY trace_id, thread_id, series
    HAVING count(*) >= 3 AND max(end_ns) - min(start_ns) > 50000
),
polled AS MATERIALIZED (
    SELECT
        slices.trace_id, slices.slice_id, slices.op_id, slices.annotation_id, slices.python_id,
        if(contains(slices.name, 'Event'), 'event', 'stream') AS kind,
        regexp_replace(slices.name, '_v[0-9]+$', '') AS call,
        polls.first_ns AS start_ns,
        polls.last_ns - polls.first_ns AS dur_ns
    FROM polls
    ASOF JOIN (SELECT trace_id, start_ns + dur_ns AS done_ns FROM gpu_ops) AS work
        ON work.trace_id = polls.trace_id AND work.done_ns <= polls.last_ns + 2000
    JOIN api_calls AS slices ON slices.trace_id = polls.trace_id AND slices.slice_id = polls.slice_id
    WHERE work.done_ns >= polls.open_until_ns
),
all_waits AS (
    SELECT
        trace_id, slice_id, op_id, annotation_id, python_id, kind, call, copy_before_id, exchange, start_ns, dur_ns
    FROM waits
    UNION ALL
    SELECT trace_id, slice_id, op_id, annotation_id, python_id, kind, call, NULL, NULL, start_ns, dur_ns
    FROM polled
),
around AS MATERIALIZED (
    SELECT trace_id, slice_id, name
    FROM host_slices
    SEMI JOIN (
        SELECT trace_id, unnest([op_id, annotation_id, python_id]) AS slice_id
        FROM all_waits
    ) AS named USING (trace_id, slice_id)
)
SELECT
    traces.trace, traces.rank, calls.trace_id, calls.slice_id AS call_id,
    coalesce(calls.op_id, if(calls.kind = 'stream', calls.copy_before_id, NULL), calls.slice_id) AS wait_id,
    calls.kind, calls.call,
    operator_base(operators.name) AS operator,
    annotations.name AS annotation, frames.name AS python, calls.exchange, calls.start_ns, calls.dur_ns
FROM all_waits AS calls
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN around AS operators ON operators.trace_id = calls.trace_id AND operators.slice_id = calls.op_id
LEFT JOIN around AS annotations ON annotations.trace_id = calls.trace_id AND annotations.slice_id = calls.annotation_id
LEFT JOIN around AS frames ON frames.trace_id = calls.trace_id AND frames.slice_id = calls.python_id
