-- PaddlePaddle's profiler. A name ends in the duration: `conv2d[45.250 us]`. A thread has two lanes, 42(Python) and 42(C++);
-- calls of C++ run inside those of Python. Calls of the runtime and what they launched have one number, which is called
-- `correlation id`. A copy has no device but its process.
INSERT INTO recast BY NAME
WITH events AS (
    SELECT host.event_id, host.name, host.pid, host.tid, host.raw_category, args.args, FALSE AS is_work
    FROM read_parquet($host) AS host
    LEFT JOIN read_parquet($args) AS args USING (event_id)
    UNION ALL
    SELECT event_id, name, pid, NULL, NULL, args, TRUE
    FROM read_parquet($gpu_events)
),
named AS (
    SELECT
        *,
        regexp_replace(name, '\[[\d.]+ [mu]s\]$', '') AS plain,
        lower(raw_category) AS kind
    FROM events
)
SELECT
    event_id,
    if(is_work, 'gpu', 'host') AS class,
    CASE
        WHEN is_work THEN NULL
        WHEN kind IN ('cudaruntime', 'cuda_runtime', 'mluruntime') THEN 'runtime'
        WHEN kind IN ('operator', 'operatorinner') THEN 'cpu_op'
        WHEN kind IN (
            'profilestep', 'profile_step', 'dataloader', 'forward', 'backward', 'optimization', 'communication', 'pythonop',
            'pythonuserdefined', 'userdefined', 'user_defined'
        )
        THEN 'annotation'
    END AS category,
    -- The marks of steps are those of PyTorch under another name.
    CASE WHEN kind IN ('profilestep', 'profile_step') THEN regexp_replace(plain, '^ProfileStep#', 'ProfilerStep#') ELSE plain END AS name,
    regexp_replace(tid, '\((Python|C\+\+)\)$', '') AS tid,
    if(is_work, TRY_CAST(pid AS BIGINT), NULL) AS device,
    TRY_CAST(args ->> '$."correlation id"' AS BIGINT) AS correlation
FROM named;
