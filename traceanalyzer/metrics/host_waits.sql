-- One row per call of the host that returns only when the device has done something: synchronisations, blocking copies.
--
-- A copy to the host blocks when it goes to pageable memory, whatever the call is named: `.item()` is such a copy, and
-- the cudaStreamSynchronize behind it finds nothing left to wait for.
--
-- columns:
--   trace        VARCHAR  name of the trace
--   rank         INTEGER  rank in the job
--   trace_id     INTEGER  key of the canonical tables
--   call_id      BIGINT   the call (host_slices.slice_id)
--   wait_id      BIGINT   the operator around it, else the call: one wait may be two calls
--   kind         VARCHAR  device, stream or event: synchronisation; read_back: copy to the host; copy: synchronous copy
--   call         VARCHAR  name of the call, without the version that nsys appends
--   operator     VARCHAR  innermost operator around it; NULL: none
--   annotation   VARCHAR  innermost annotation around it; NULL: none
--   python       VARCHAR  innermost Python frame around it; NULL: none
--   start_ns     BIGINT   start
--   dur_ns       BIGINT   duration
WITH read_backs AS (
    SELECT
        trace_id,
        launch_id AS call_id,
        max(start_ns + dur_ns) AS copied_ns
    FROM gpu_ops
    WHERE copy_kind = 'DtoH' AND launch_id IS NOT NULL
    GROUP BY trace_id, launch_id
),
calls AS (
    SELECT
        slices.*,
        regexp_replace(slices.name, '_v[0-9]+$', '') AS call,
        CASE
            WHEN regexp_matches(slices.name, '^(cuda|hip)(Device|Thread)Synchronize|^cuCtxSynchronize') THEN 'device'
            WHEN regexp_matches(slices.name, '^(cuda|hip|cu)StreamSynchronize') THEN 'stream'
            WHEN regexp_matches(slices.name, '^(cuda|hip|cu)EventSynchronize') THEN 'event'
            -- Shorter than 20 µs it only enqueued the copy; 2 µs are the error of the two clocks.
            WHEN slices.dur_ns > 20000 AND slices.start_ns + slices.dur_ns >= read_backs.copied_ns - 2000 THEN 'read_back'
            WHEN regexp_matches(slices.name, '^(cuda|hip)Memcpy(_v[0-9]+|WithStream|)$') THEN 'copy'
        END AS kind
    FROM host_slices AS slices
    LEFT JOIN read_backs
           ON read_backs.trace_id = slices.trace_id AND read_backs.call_id = slices.slice_id
    WHERE slices.category IN ('runtime', 'driver')
)
SELECT
    traces.trace,
    traces.rank,
    calls.trace_id,
    calls.slice_id AS call_id,
    coalesce(calls.op_id, calls.slice_id) AS wait_id,
    calls.kind,
    calls.call,
    operators.name AS operator,
    annotations.name AS annotation,
    frames.name AS python,
    calls.start_ns,
    calls.dur_ns
FROM calls
JOIN canonical.traces AS traces USING (trace_id)
LEFT JOIN host_slices AS operators
       ON operators.trace_id = calls.trace_id AND operators.slice_id = calls.op_id
LEFT JOIN host_slices AS annotations
       ON annotations.trace_id = calls.trace_id AND annotations.slice_id = calls.annotation_id
LEFT JOIN host_slices AS frames
       ON frames.trace_id = calls.trace_id AND frames.slice_id = calls.python_id
WHERE calls.kind IS NOT NULL
