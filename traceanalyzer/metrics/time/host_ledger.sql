-- One row per bucket of a trace without GPU work: what the thread that runs its steps does in them.
--
-- The buckets and the window are those of host_ledger_rows, whose kept rows they add up.
--
-- empty without: traces ANTI JOIN gpu_ops USING (trace_id)
-- columns: trace, rank, trace_id
--   thread_id   INTEGER  thread that runs the steps
--   step_count  BIGINT   steps in the window; 0: none are marked
--   window_ns   BIGINT   length of the window; the buckets add up to it
--   bucket      VARCHAR  what the thread does
--   dur_ns      BIGINT   time in it
--   share       DOUBLE   part of the window
SELECT
    trace, rank, trace_id,
    any_value(thread_id) AS thread_id,
    any_value(step_count) AS step_count,
    any_value(window_ns) AS window_ns,
    bucket,
    sum(dur_ns)::BIGINT AS dur_ns,
    sum(dur_ns) / any_value(window_ns) AS share
FROM host_ledger_rows
WHERE kept
GROUP BY trace, rank, trace_id, bucket
ORDER BY trace_id, dur_ns DESC, bucket
