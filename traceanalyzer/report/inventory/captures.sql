-- Each capture of graphs beside the traces: for how many kernels of replayed graphs it is the first that tells the operator.
WITH kernels AS MATERIALIZED (
    SELECT owner_id, operator IS NOT NULL AS is_matched, sum_ns
    FROM graph_operators
    WHERE kind = 'kernel' AND EXISTS (FROM canonical.capture_files)
),
totals AS (
    SELECT
        count(*) AS kernel_count,
        count_if(is_matched) AS explained_count,
        coalesce(sum(sum_ns) FILTER (WHERE is_matched), 0) / nullif(sum(sum_ns), 0) AS explained_share
    FROM kernels
),
told AS (
    SELECT owner_id, count(*) AS matched_count
    FROM kernels
    WHERE is_matched
    GROUP BY owner_id
)
SELECT
    files.trace AS capture, files.rank,
    coalesce(told.matched_count, 0) AS matched_count,
    totals.kernel_count, totals.explained_count, totals.explained_share
FROM canonical.capture_files AS files
CROSS JOIN totals
LEFT JOIN told ON told.owner_id = files.capture_id
ORDER BY files.capture_id
