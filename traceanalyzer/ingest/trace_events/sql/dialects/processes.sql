-- The names of processes, each once.
SELECT DISTINCT args ->> '$.name' AS process
FROM read_parquet($other)
WHERE phase = 'M' AND name = 'process_name'
