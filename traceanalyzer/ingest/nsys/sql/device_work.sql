-- GPU work of one trace, with the calls that launched it, as `device_check` wants it. Moves of managed memory are of no
-- stream; a whole replay of a graph is.
CREATE OR REPLACE TEMP TABLE device_work AS
SELECT
    ops.op_id, ops.device, ops.stream,
    concat_ws('/', ops.device, ops.context, ops.stream) AS lane,
    ops.name, ops.size_bytes, ops.start_ns,
    ops.start_ns + ops.dur_ns AS end_ns,
    ops.graph_id IS NULL
    AND ops.kind <> 'graph'
    AND (ops.kind <> 'kernel' OR coalesce(NOT regexp_matches(calls.name, 'LaunchKernelEx|GraphLaunch|^hipExt'), FALSE))
        AS is_ordered,
    ops.kind = 'memcpy'
    AND ops.copy_kind = 'DtoH'
    AND (NOT contains(calls.name, 'Async') OR ops.dst_kind = 'pageable') AS is_read_back,
    CAST(NULL AS BIGINT) AS correlation, -- in several processes, ids do not tell an order
    calls.start_ns AS call_start_ns,
    calls.start_ns + calls.dur_ns AS call_end_ns
FROM read_parquet($ops) AS ops
-- Only numbered calls launch work.
LEFT JOIN (FROM read_parquet($slices) WHERE correlation IS NOT NULL) AS calls ON calls.slice_id = ops.launch_id
WHERE ops.stream IS NOT NULL AND ops.name NOT LIKE 'Memcpy UVM %';
