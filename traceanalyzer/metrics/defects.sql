-- One row per trace and kind of defect: what was lost, repaired or is doubtful, how often, and where first.
--
-- A loss means that something is missing from every number; a repair was read after mending; a note is harmless.
--
-- columns:
--   trace        VARCHAR  name of the trace
--   rank         INTEGER  rank in the job
--   defect       VARCHAR  name of the defect
--   severity     VARCHAR  loss, repair or note
--   defect_count BIGINT   how often
--   first_offset BIGINT   byte offset of the first in the decompressed file; NULL: no single place
--   example      VARCHAR  the first, shortened
--   advice       VARCHAR  what it means and what to do
SELECT
    trace,
    rank,
    defect,
    severity,
    defect_count,
    first_offset,
    example,
    advice
FROM canonical.defects
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, list_position(['loss', 'repair', 'note'], severity), defect
