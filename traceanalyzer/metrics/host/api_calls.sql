-- One row per call of a device's runtime or driver.
--
-- columns: trace_id
--   slice_id       BIGINT   the call (host_slices.slice_id)
--   thread_id      INTEGER  its thread
--   name           VARCHAR  name of the call
--   start_ns       BIGINT   start
--   dur_ns         BIGINT   duration
--   depth          INTEGER  number of slices around it
--   parent_id      BIGINT   innermost slice around it; NULL: none
--   op_id          BIGINT   innermost operator around it; NULL: none
--   annotation_id  BIGINT   innermost annotation around it; NULL: none
--   python_id      BIGINT   innermost Python frame around it; NULL: none
SELECT trace_id, slice_id, thread_id, name, start_ns, dur_ns, depth, parent_id, op_id, annotation_id, python_id
FROM host_slices
WHERE category IN ('runtime', 'driver')
