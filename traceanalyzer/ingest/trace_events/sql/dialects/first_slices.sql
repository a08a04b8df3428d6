-- Whether the first operators are calls of Intel's drivers, which only unitrace names so: where it recorded no work, no
-- process has the name of a device. And whether the first slice is of PyTorch's list of events, and whether the first slices have
-- the categories of Proton, or are kernels of no process, as it wrote in 2025.
SELECT
    (
        SELECT avg(CAST(regexp_matches(name, '^(ze|zet|zes|cl|ur|sycl)[A-Z]\w*$') AS INTEGER)) > 0.5
        FROM (SELECT name FROM read_parquet($host) WHERE raw_category = 'cpu_op' LIMIT 100)
    ) AS has_calls_of_unitrace,
    (SELECT raw_category IS NULL AND pid IN ('CPU functions', 'CUDA functions') FROM read_parquet($host) LIMIT 1) AS by_autograd,
    (
        SELECT bool_and(coalesce(raw_category IN ('scope', 'metric', 'kernel'), FALSE))
        FROM (SELECT raw_category FROM read_parquet($host) LIMIT 1000)
    ) AS by_proton,
    (SELECT bool_and(coalesce(raw_category = 'kernel' AND pid IS NULL, FALSE)) FROM (SELECT raw_category, pid FROM read_parquet($host) LIMIT 1000))
        AS by_proton_of_2025
