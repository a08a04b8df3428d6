-- One row per trace and key of its metadata, as written.
SELECT traces.trace, metadata.key, metadata.value
FROM canonical.metadata
JOIN canonical.traces USING (trace_id)
ORDER BY traces.trace_id, metadata.key, metadata.value
