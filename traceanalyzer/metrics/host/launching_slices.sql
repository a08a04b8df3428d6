-- One row per slice of the host that launched GPU work. It is a call of the runtime or driver; in the traces of some tools
-- it is an operator or a range.
--
-- columns: trace_id
--   slice_id       BIGINT   the slice (host_slices.slice_id, gpu_ops.launch_id)
--   thread_id      INTEGER  its thread
--   name           VARCHAR  name of the slice
--   start_ns       BIGINT   start
--   dur_ns         BIGINT   duration
--   parent_id      BIGINT   innermost slice around it; NULL: none
--   op_id          BIGINT   innermost operator around it; NULL: none
--   annotation_id  BIGINT   innermost annotation around it; NULL: none
--   python_id      BIGINT   innermost Python frame around it; NULL: none
WITH launched AS (
    SELECT DISTINCT trace_id, launch_id AS slice_id FROM gpu_ops WHERE launch_id IS NOT NULL
)
SELECT trace_id, slice_id, thread_id, name, start_ns, dur_ns, parent_id, op_id, annotation_id, python_id
FROM api_calls
SEMI JOIN launched USING (trace_id, slice_id)
UNION ALL
-- In most traces there are none, and DuckDB then reads no slice.
SELECT trace_id, slice_id, thread_id, name, start_ns, dur_ns, parent_id, op_id, annotation_id, python_id
FROM host_slices
SEMI JOIN (FROM launched ANTI JOIN api_calls USING (trace_id, slice_id)) AS others USING (trace_id, slice_id)
