-- rocprofv2: four processes, one a kind; a kernel's thread is its agent, and copies have no device. Calls and what they
-- launched have one correlation id.
INSERT INTO recast BY NAME
WITH works AS (
    SELECT event_id, name, raw_category, tid, TRY_CAST(args.args ->> '$.cid' AS BIGINT) AS correlation
    FROM read_parquet($host) AS host
    LEFT JOIN read_parquet($args) AS args USING (event_id)
    WHERE raw_category IN ('CPU', 'GPU', 'gpu', 'COPY', 'HIPBLITKERNELS')
),
devices AS (
    SELECT tid, row_number() OVER (ORDER BY TRY_CAST(tid AS UBIGINT), tid) - 1 AS device
    FROM (SELECT DISTINCT tid FROM works WHERE lower(raw_category) IN ('gpu', 'hipblitkernels'))
)
SELECT
    event_id,
    CASE WHEN raw_category = 'CPU' THEN 'host' ELSE 'gpu' END AS class,
    CASE
        WHEN raw_category = 'COPY' THEN if(starts_with(name, 'Fill'), 'memset', 'memcpy')
        WHEN raw_category <> 'CPU' THEN 'kernel'
        WHEN regexp_matches(name, '^(__)?hip[A-Z]') THEN 'runtime'
        WHEN starts_with(name, 'hsa') THEN 'driver'
        ELSE 'annotation'
    END AS category,
    coalesce(devices.device, 0) AS device,
    correlation,
    CASE
        WHEN raw_category = 'COPY' AND name LIKE '%HostToDevice%' THEN 'HtoD'
        WHEN raw_category = 'COPY' AND name LIKE '%DeviceToHost%' THEN 'DtoH'
        WHEN raw_category = 'COPY' AND name LIKE '%DeviceToDevice%' THEN 'DtoD'
        WHEN raw_category = 'COPY' AND name LIKE '%HostToHost%' THEN 'HtoH'
    END AS copy_kind
FROM works
LEFT JOIN devices ON devices.tid = works.tid AND raw_category NOT IN ('CPU', 'COPY');
