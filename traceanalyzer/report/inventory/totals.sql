-- One row: how many traces, events and defects a run has.
SELECT
    count(*) AS trace_count,
    coalesce(sum(event_count), 0) AS event_count,
    (SELECT coalesce(sum(defect_count), 0) FROM canonical.defects) AS defect_count
FROM canonical.traces
