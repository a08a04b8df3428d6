-- One row per name ($4: kinds, $5: names), trace, device of what runs on one, and cell of a length ($1): the time in calls of
-- that name, those at once in full. Times begin at a zero of each trace ($2: their numbers, $3: the zeros).
WITH zeros AS (
    SELECT unnest(CAST($2 AS INTEGER[])) AS trace_id, unnest(CAST($3 AS BIGINT[])) AS zero_ns
),
wanted AS (
    SELECT unnest(CAST($4 AS VARCHAR[])) AS kind, unnest(CAST($5 AS VARCHAR[])) AS name
),
named AS (
    SELECT CASE kind WHEN 'kernel' THEN 'kernel' ELSE 'GPU work' END AS kind, name, trace_id, device, start_ns, dur_ns
    FROM canonical.gpu_ops
    UNION ALL
    SELECT CASE category WHEN 'annotation' THEN 'range' ELSE 'operator' END, name, trace_id, NULL, start_ns, dur_ns
    FROM canonical.host_slices
    WHERE category IN ('annotation', 'cpu_op')
),
placed AS (
    SELECT
        kind, name, trace_id, device,
        start_ns - zero_ns AS start_ns,
        start_ns - zero_ns + dur_ns AS end_ns,
        unnest(range(greatest(start_ns - zero_ns, 0) // $1, (start_ns - zero_ns + greatest(dur_ns, 1) - 1) // $1 + 1)) AS cell
    FROM named
    JOIN wanted USING (kind, name)
    JOIN zeros USING (trace_id)
)
SELECT
    kind, name, trace_id, device, cell,
    CAST(sum(least(end_ns, (cell + 1) * $1) - greatest(start_ns, cell * $1)) AS BIGINT) AS dur_ns
FROM placed
GROUP BY ALL
ORDER BY ALL
