-- Timelines of TensorFlow 1: the processes of a device are `/gpu:0/stream:all Compute`, one a stream, and
-- `/gpu:0 Compute`, which shows the operators of the device where its kernels were not traced. Of several that show the
-- same, one counts: all streams together, else each stream, else the operators.
INSERT INTO recast BY NAME
WITH tracks AS (
    SELECT
        pid,
        TRY_CAST(regexp_extract(process, '/(?:device:)?gpu:(\d+)', 1, 'i') AS BIGINT) AS device,
        CASE
            WHEN NOT regexp_matches(process, ' Compute$') THEN 9
            WHEN process LIKE '%/stream:all %' THEN 1
            WHEN process LIKE '%/stream:%' THEN 2
            WHEN process LIKE '%/memcpy %' THEN 0
            ELSE 3
        END AS place,
        TRY_CAST(regexp_extract(process, '/stream:(\d+)', 1) AS BIGINT) AS stream
    FROM process_names
    WHERE regexp_matches(process, '/(device:)?gpu:\d+', 'i')
),
chosen AS (
    SELECT *, min(place) FILTER (WHERE place > 0) OVER (PARTITION BY device) AS best
    FROM tracks
)
SELECT
    event_id,
    CASE WHEN place IN (0, best) AND place < 9 THEN 'gpu' ELSE 'none' END AS class,
    CASE WHEN place = 0 OR regexp_matches(host.name, '^memcpy', 'i') THEN 'memcpy' ELSE 'kernel' END AS category,
    device,
    coalesce(stream, TRY_CAST(tid AS BIGINT)) AS stream,
    CASE
        WHEN regexp_matches(host.name, 'HtoD|HTOD') THEN 'HtoD'
        WHEN regexp_matches(host.name, 'DtoH|DTOH') THEN 'DtoH'
        WHEN regexp_matches(host.name, 'DtoD|DTOD') THEN 'DtoD'
    END AS copy_kind
FROM read_parquet($host) AS host
JOIN chosen USING (pid);
