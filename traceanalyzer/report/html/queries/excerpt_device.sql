-- The work of a device ($2; NULL: of all) of a trace ($1) within a time ($3 to $4), by stream. Work shorter than $5 that
-- begins in one stretch of that length and is of one kind is one row.
WITH inside AS (
    SELECT
        device, stream,
        CASE WHEN is_comm THEN 'comm' WHEN kind IN ('memcpy', 'memset') THEN 'copy' ELSE 'kernel' END AS kind,
        name, launch_id, start_ns,
        start_ns + dur_ns AS end_ns,
        dur_ns
    FROM canonical.gpu_ops
    WHERE trace_id = $1 AND ($2 IS NULL OR device = $2) AND start_ns < $4 AND start_ns + dur_ns > $3
)
SELECT device, stream, kind, name, launch_id, start_ns, end_ns, dur_ns, 1 AS op_count
FROM inside
WHERE dur_ns >= $5
UNION ALL
SELECT
    device, stream, kind,
    CASE WHEN count(*) = 1 THEN min(name) END,
    CASE WHEN count(*) = 1 THEN min(launch_id) END,
    min(start_ns),
    max(end_ns),
    CAST(sum(dur_ns) AS BIGINT),
    count(*)
FROM inside
WHERE dur_ns < $5
GROUP BY device, stream, kind, (start_ns - $3) // $5
ORDER BY device, stream, start_ns, end_ns DESC, name
