-- Triton's Proton with data="trace": one process of threads called CPU Thread <tid>, Graph: Stream <n> and GPU Stream <n>.
-- A stream's thread is 200,000 + 1,000,000 × device + stream, which may be the number of a real thread, too; kernels have
-- a category of their own. Scopes of graphs are drawn once more over their kernels; those of the host have call stacks.
-- Triton 3.4 and 3.5 write kernels alone, in no process: the thread is the stream, the device is not said.
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
    if(raw_category = 'kernel', greatest(TRY_CAST(host.tid AS BIGINT) - 200000, 0) // 1000000, NULL) AS device,
    CASE
        WHEN raw_category <> 'kernel' THEN NULL
        WHEN host.pid IS NULL THEN TRY_CAST(host.tid AS BIGINT)
        ELSE (TRY_CAST(host.tid AS BIGINT) - 200000) % 1000000
    END AS stream
FROM read_parquet($host) AS host
LEFT JOIN read_parquet($args) AS args USING (event_id);
