-- The slices of the threads that launch work of a device ($2) of a trace ($1), in no order: which name, when it ends, the
-- time of each within the analysis window of the device, what the work that it launched there takes on the device, and
-- how long the device did not compute in the window because of it, as the ledger blames it.
WITH windows AS (
    SELECT start_ns, end_ns
    FROM attribution.windows
    WHERE trace_id = $1 AND device = $2
),
launched AS (
    SELECT ops.launch_id AS slice_id, CAST(sum(ops.dur_ns) AS BIGINT) AS device_ns
    FROM canonical.gpu_ops AS ops, windows
    WHERE trace_id = $1 AND device = $2 AND launch_id IS NOT NULL
      AND ops.start_ns >= windows.start_ns AND ops.start_ns < windows.end_ns
    GROUP BY ops.launch_id
),
blamed AS (
    SELECT blame_id AS slice_id, CAST(sum(dur_ns) AS BIGINT) AS idle_ns
    FROM attribution.ledger_rows
    WHERE trace_id = $1 AND device = $2 AND kept AND bucket <> 'compute' AND blame_kind = 'slice'
    GROUP BY blame_id
),
threads AS (
    SELECT DISTINCT thread_id
    FROM canonical.host_slices
    SEMI JOIN launched USING (slice_id)
    WHERE trace_id = $1
),
slices AS NOT MATERIALIZED (
    SELECT slice_id, parent_id, depth, name, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    SEMI JOIN threads USING (thread_id)
    WHERE trace_id = $1
),
names AS (
    SELECT name, row_number() OVER (ORDER BY name) - 1 AS name_number
    FROM (SELECT DISTINCT name FROM slices)
)
SELECT
    CAST(slices.slice_id AS INTEGER) AS slice_id,
    CAST(coalesce(slices.parent_id, -1) AS INTEGER) AS parent_id,
    slices.depth,
    CAST(names.name_number AS INTEGER) AS name_number,
    slices.end_ns,
    greatest(0, least(slices.end_ns, windows.end_ns) - greatest(slices.start_ns, windows.start_ns)) AS host_ns,
    coalesce(launched.device_ns, 0) AS device_ns,
    coalesce(blamed.idle_ns, 0) AS idle_ns
FROM slices
JOIN names ON names.name IS NOT DISTINCT FROM slices.name
CROSS JOIN windows
LEFT JOIN launched USING (slice_id)
LEFT JOIN blamed USING (slice_id)
