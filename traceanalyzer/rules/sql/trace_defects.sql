-- One row per trace and kind of defect, losses first.
SELECT
    traces.trace, defects.defect, defects.severity, defects.defect_count, defects.first_offset, defects.advice
FROM canonical.defects AS defects
JOIN traces USING (trace_id)
ORDER BY traces.trace_id, defects.severity = 'loss' DESC, defects.severity = 'repair' DESC, defects.defect
