-- One row per trace: its number, rank, and where its first and last event lie.
SELECT trace_id, trace, rank, first_ns, last_ns
FROM canonical.traces
ORDER BY trace_id
