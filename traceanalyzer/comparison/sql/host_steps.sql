-- One row per trace and step that its thread runs, as the profiler marked it on the host: its length. Only read where a
-- run has no GPU work.
WITH threads AS (
    SELECT DISTINCT trace, rank, trace_id, thread_id
    FROM host_ledger
)
SELECT threads.trace, threads.rank, slices.dur_ns
FROM host_slices AS slices
JOIN threads USING (trace_id, thread_id)
WHERE marks_step(slices.category, slices.raw_category, slices.name)
  -- The step in which the recording stopped is left out.
  AND (slices.trace_id, slices.slice_id) NOT IN (
      SELECT (arguments.trace_id, arguments.event_id)
      FROM event_args AS arguments
      SEMI JOIN threads USING (trace_id)
      WHERE is_cut(arguments.args)
  )
-- A step inside another one is a part of it.
QUALIFY coalesce(
    slices.start_ns + slices.dur_ns > max(slices.start_ns + slices.dur_ns) OVER (
        PARTITION BY threads.trace_id ORDER BY slices.start_ns, slices.dur_ns DESC ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
    ),
    TRUE
)
ORDER BY threads.trace_id, slices.start_ns
