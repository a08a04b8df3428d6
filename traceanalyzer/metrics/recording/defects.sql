-- One row per trace and kind of defect: what was lost, repaired or is doubtful, how often, and where first.
--
-- A loss means that every number lacks something; a repair means that the data was corrected while it was read; a note
-- is harmless.
--
-- columns: trace, rank
--   defect       VARCHAR  name of the defect
--   severity     VARCHAR  loss, repair or note
--   defect_count BIGINT   how often
--   first_offset BIGINT   byte offset of the first one in the decompressed file; NULL: no single place
--   example      VARCHAR  the first one, shortened
--   advice       VARCHAR  what it means and what to do
SELECT trace, rank, defect, severity, defect_count, first_offset, example, advice
FROM canonical.defects
JOIN canonical.traces USING (trace_id)
ORDER BY trace_id, list_position(['loss', 'repair', 'note'], severity), defect
