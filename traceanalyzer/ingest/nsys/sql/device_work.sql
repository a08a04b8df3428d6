-- GPU work of one trace, with the calls that launched it, as `device_check` wants it. Moves of managed memory are of no
-- stream; a whole replay of a graph is.
CREATE OR REPLACE TEMP TABLE device_work AS
WITH names AS MATERIALIZED (
    -- Few names are different, and rows are many.
    SELECT
        name,
        regexp_matches(name, 'LaunchKernelEx|GraphLaunch|^hipExt') AS is_free,
        contains(name, 'Async') AS is_async
    FROM (SELECT DISTINCT name FROM read_parquet($slices) WHERE correlation IS NOT NULL)
),
calls AS (
    SELECT
        slice_id, start_ns,
        start_ns + dur_ns AS end_ns,
        is_free, is_async
    FROM read_parquet($slices)
    LEFT JOIN names USING (name)
    WHERE correlation IS NOT NULL -- only numbered calls launch work
)
SELECT
    ops.op_id, ops.device, ops.stream,
    hash(ops.device, ops.context, ops.stream) AS lane,
    ops.name, ops.size_bytes, ops.start_ns,
    ops.start_ns + ops.dur_ns AS end_ns,
    ops.graph_id IS NULL
    AND ops.kind <> 'graph'
    AND (ops.kind <> 'kernel' OR coalesce(NOT is_free, FALSE))
        AS is_ordered,
    ops.kind = 'memcpy'
    AND ops.copy_kind = 'DtoH'
    AND (NOT is_async OR ops.dst_kind = 'pageable') AS is_read_back,
    CAST(NULL AS BIGINT) AS correlation, -- in several processes, ids do not tell an order
    calls.start_ns AS call_start_ns,
    calls.end_ns AS call_end_ns
FROM read_parquet($ops) AS ops
LEFT JOIN calls ON calls.slice_id = ops.launch_id
WHERE ops.stream IS NOT NULL AND ops.name NOT LIKE 'Memcpy UVM %';
