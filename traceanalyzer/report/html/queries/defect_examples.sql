-- One row per trace and kind of defect: the first one of that kind (NULL: none is kept).
SELECT traces.trace, defects.defect, defects.example
FROM canonical.defects
JOIN canonical.traces USING (trace_id)
ORDER BY traces.trace, defects.defect
