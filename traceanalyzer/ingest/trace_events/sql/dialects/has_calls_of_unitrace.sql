-- Whether the first operators are calls of Intel's drivers, which only unitrace names so. Where it recorded no work, no
-- process has the name of a device.
SELECT avg(CAST(regexp_matches(name, '^(ze|zet|zes|cl|ur|sycl)[A-Z]\w*$') AS INTEGER)) > 0.5 AS has_calls
FROM (SELECT name FROM read_parquet($host) WHERE raw_category = 'cpu_op' LIMIT 100)
