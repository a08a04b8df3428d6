-- The intervals on host threads of the run's traces and of the captures of graphs beside them, in the columns of
-- capture_slices. A macro: as a metric that others read, an export would hold a copy of all host slices.
CREATE OR REPLACE MACRO recorded_slices() AS TABLE
SELECT
    trace_id AS owner_id, slice_id, thread_id, category, name, start_ns, dur_ns, parent_id, op_id,
    annotation_id, python_id, module_id, input_shapes
FROM canonical.host_slices
UNION ALL BY NAME
SELECT * RENAME (capture_id AS owner_id)
FROM canonical.capture_slices;
