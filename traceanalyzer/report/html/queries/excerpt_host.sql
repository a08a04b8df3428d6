-- The slices of a thread ($2) of a trace ($1) within a time ($3 to $4). Slices shorter than $5 are shown by the outermost
-- of them alone, and those that lie in one slice, begin in one stretch of that length and are of one category are one row.
WITH inside AS (
    SELECT slice_id, parent_id, category, name, depth, start_ns, start_ns + dur_ns AS end_ns, dur_ns
    FROM canonical.host_slices
    WHERE trace_id = $1 AND thread_id = $2 AND start_ns < $4 AND start_ns + dur_ns > $3
),
outermost AS (
    SELECT inside.*
    FROM inside
    LEFT JOIN inside AS parent ON parent.slice_id = inside.parent_id
    WHERE inside.dur_ns < $5 AND coalesce(parent.dur_ns >= $5, TRUE)
)
SELECT slice_id, category, name, depth, start_ns, end_ns, 1 AS slice_count
FROM inside
WHERE dur_ns >= $5
UNION ALL
SELECT
    CASE WHEN count(*) = 1 THEN min(slice_id) END,
    category,
    CASE WHEN count(*) = 1 THEN min(name) END,
    min(depth),
    min(start_ns),
    max(end_ns),
    count(*)
FROM outermost
GROUP BY parent_id, category, (start_ns - $3) // $5
ORDER BY start_ns, end_ns DESC, depth, category, name
