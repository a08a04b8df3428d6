-- unitrace of Intel: a process is named DEVICE<host>[product] domain:bus:device:function, and each is a queue of a
-- device. Host calls have a category of PyTorch's operators. Arrows link calls and their work. Where a
-- process has another name, the device of its work is unknown.
INSERT INTO recast BY NAME
WITH devices AS (
    SELECT pid, dense_rank() OVER (ORDER BY regexp_replace(process, '\s*#\d+\s*$', '')) - 1 AS device
    FROM process_names
    WHERE regexp_matches(process, '^(RANK \d+ )?DEVICE<')
    UNION ALL
    SELECT DISTINCT pid, NULL AS device
    FROM read_parquet($host)
    WHERE raw_category = 'gpu_op'
      AND pid NOT IN (SELECT pid FROM process_names WHERE regexp_matches(process, '^(RANK \d+ )?DEVICE<'))
),
slices AS (
    SELECT
        event_id, host.name, host.tid, raw_category, device,
        devices.pid IS NOT NULL AND raw_category = 'gpu_op' AS is_work,
        regexp_extract(host.name, '^(.*?)\[SIMD\d+', 1) AS function,
        regexp_extract(host.name, '\[SIMD\d+ \{([^}]*)\}', 1) AS groups,
        regexp_extract(host.name, '\[SIMD\d+ \{[^}]*\} \{([^}]*)\}', 1) AS size
    FROM read_parquet($host) AS host
    LEFT JOIN devices ON devices.pid = host.pid
)
SELECT
    event_id,
    if(is_work, 'gpu', 'host') AS class,
    CASE
        WHEN NOT is_work
        THEN CASE
            WHEN raw_category <> 'cpu_op' THEN NULL
            WHEN regexp_matches(name, '^(ze|zet|zes|cl|ur|sycl|pi)[A-Z_]') THEN 'runtime'
            ELSE 'other'
        END
        WHEN regexp_matches(name, 'MemoryFill|EnqueueFill') THEN 'memset'
        WHEN regexp_matches(name, 'MemoryCopy|Enqueue(Read|Write|Copy|SVMMemcpy|MemcpyINTEL)') THEN 'memcpy'
        ELSE 'kernel'
    END AS category,
    nullif(function, '') AS name,
    device,
    TRY_CAST(tid AS BIGINT) & 4294967295 AS stream,
    CASE
        WHEN regexp_matches(name, '\((M2D|H2D)\)|HtoD') THEN 'HtoD'
        WHEN regexp_matches(name, '\((D2M|D2H)\)|DtoH') THEN 'DtoH'
        WHEN regexp_matches(name, '\(D2D\)|DtoD') THEN 'DtoD'
    END AS copy_kind,
    TRY_CAST(regexp_split_to_array(nullif(trim(groups), ''), '\s*[,;]\s*|\s+') AS BIGINT[]) AS grid,
    TRY_CAST(regexp_split_to_array(nullif(trim(size), ''), '\s*[,;]\s*|\s+') AS BIGINT[]) AS block
FROM slices;
