-- One row per name of a kernel, a range that the program marked or an operator, those of a kind with most time first, at most
-- so many ($1): how often and how long. Calls inside others of the same name count in full.
WITH named AS (
    SELECT CASE kind WHEN 'kernel' THEN 'kernel' ELSE 'GPU work' END AS kind, name, dur_ns
    FROM canonical.gpu_ops
    UNION ALL
    SELECT CASE category WHEN 'annotation' THEN 'range' ELSE 'operator' END, name, dur_ns
    FROM canonical.host_slices
    WHERE category IN ('annotation', 'cpu_op') AND NOT marks_step(category, raw_category, name)
)
SELECT kind, name, count(*) AS call_count, CAST(sum(dur_ns) AS BIGINT) AS sum_ns
FROM named
WHERE name IS NOT NULL
GROUP BY kind, name
QUALIFY row_number() OVER (PARTITION BY kind ORDER BY sum_ns DESC, name) <= $1
ORDER BY row_number() OVER (PARTITION BY kind ORDER BY sum_ns DESC, name), sum_ns DESC, kind, name
