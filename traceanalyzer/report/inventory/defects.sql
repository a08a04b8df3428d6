-- One row per trace and kind of defect: what was lost, repaired or doubtful.
SELECT
    traces.trace, defects.defect, defects.severity, defects.defect_count, defects.first_offset,
    defects.example, defects.advice
FROM canonical.defects
JOIN canonical.traces USING (trace_id)
ORDER BY
    traces.trace_id,
    CASE defects.severity WHEN 'loss' THEN 0 WHEN 'repair' THEN 1 ELSE 2 END,
    defects.defect_count DESC,
    defects.defect
