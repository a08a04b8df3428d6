-- One row per trace and thing worth recording: how the trace's profiler records it next time.
--
-- The row of recording_hints that fits best: a row of the trace's recorder goes before a row for any, then a row of its
-- framework.
--
-- columns: trace, rank, trace_id
--   what         VARCHAR  recording_hints.what
--   hint         VARCHAR  what to do
SELECT
    programs.trace, programs.rank, programs.trace_id, hints.what,
    arg_max(hints.hint, (hints.recorder IS NOT NULL, hints.framework IS NOT NULL)) AS hint
FROM programs
JOIN recording_hints AS hints
  ON (hints.recorder IS NULL OR hints.recorder = programs.recorder)
 AND (
     hints.framework IS NULL
     OR hints.framework = programs.framework
     OR (hints.framework = 'pytorch' AND programs.is_pytorch)
 )
GROUP BY ALL
