-- unitrace of Intel: a process is named DEVICE<host>[product] domain:bus:device:function #n. Tiles of a card share its
-- address and differ in the number, which is #card.tile where they are parts of a device; OpenCL's devices have none. Host
-- calls have a category of PyTorch's operators. Arrows link calls and their work. Where a process has another name, the
-- device of its work is unknown.
INSERT INTO recast BY NAME
WITH tiles AS (
    SELECT pid, regexp_replace(trim(process), '^RANK \d+ ', '') AS tile, regexp_replace(tile, '\s*#[\d.]+$', '') AS card
    FROM process_names
    WHERE regexp_matches(process, '^(RANK \d+ )?DEVICE<')
),
devices AS (
    SELECT pid, dense_rank() OVER (ORDER BY if(tile = card, coalesce(first_tile, card), tile)) - 1 AS device
    FROM (SELECT *, min(tile) FILTER (WHERE tile <> card) OVER (PARTITION BY card) AS first_tile FROM tiles)
    UNION ALL
    SELECT DISTINCT pid, NULL AS device
    FROM read_parquet($host)
    WHERE raw_category = 'gpu_op'
      AND pid NOT IN (SELECT pid FROM tiles)
),
slices AS (
    SELECT
        event_id, regexp_replace(host.name, '^Tile #\d+: ', '') AS name, host.tid, raw_category, device,
        devices.pid IS NOT NULL AND raw_category = 'gpu_op' AS is_work,
        regexp_extract(host.name, '^(?:Tile #\d+: )?(.*?)\[SIMD\d+', 1) AS function,
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
    coalesce(nullif(function, ''), if(is_work, name, NULL)) AS name,
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
