-- Triton's Proton with data="trace": one process of threads called CPU Thread <tid>, Graph: Stream <n> and GPU Stream <n>.
-- A stream's thread is 200,000 + 1,000,000 × device + stream, which may be the number of a real thread, too; kernels have
-- a category of their own. Scopes of graphs are drawn once more over their kernels; those of the host have call stacks.
INSERT INTO recast BY NAME
SELECT
    event_id,
    CASE
        WHEN raw_category = 'kernel' THEN 'gpu'
        WHEN args.args ->> '$.call_stack' IS NULL AND host.tid IN (
            SELECT tid
            FROM read_parquet($other)
            WHERE phase = 'M' AND name = 'thread_name' AND starts_with(args ->> '$.name', 'Graph: Stream ')
        ) THEN 'none'
        ELSE 'host'
    END AS class,
    if(raw_category = 'kernel', 'kernel', 'annotation') AS category,
    if(raw_category = 'kernel', (TRY_CAST(host.tid AS BIGINT) - 200000) // 1000000, NULL) AS device,
    if(raw_category = 'kernel', (TRY_CAST(host.tid AS BIGINT) - 200000) % 1000000, NULL) AS stream
FROM read_parquet($host) AS host
LEFT JOIN read_parquet($args) AS args USING (event_id);
