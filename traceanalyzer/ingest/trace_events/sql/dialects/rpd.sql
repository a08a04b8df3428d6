-- What rpd2tracing makes of AMD's RPD: the process GPU<n> has the device's queues as threads, and the argument `desc`
-- says what kind of work a slice is. Frames of markers are drawn there, too, and replays of graphs over their kernels.
-- Names of calls are those of HIP; what else the host has is a range, or the recorder's own work.
INSERT INTO recast BY NAME
WITH slices AS (
    SELECT
        event_id, host.name, host.pid, host.tid,
        coalesce(args.args ->> '$.desc', '') AS said,
        args.args ->> '$.kernels' IS NOT NULL AS is_replay,
        TRY_CAST(regexp_extract(process, '^GPU(\d+)$', 1) AS BIGINT) AS device
    FROM read_parquet($host) AS host
    LEFT JOIN process_names USING (pid)
    LEFT JOIN read_parquet($args) AS args USING (event_id)
)
SELECT
    event_id,
    CASE
        WHEN device IS NULL THEN 'host'
        WHEN starts_with(said, 'UserMarker frame:') OR starts_with(said, 'Barrier') OR is_replay THEN 'none'
        ELSE 'gpu'
    END AS class,
    CASE
        WHEN device IS NOT NULL AND regexp_matches(said, '^Copy') THEN 'memcpy'
        WHEN device IS NOT NULL AND starts_with(said, 'Fill') THEN 'memset'
        WHEN device IS NOT NULL THEN 'kernel'
        WHEN regexp_matches(name, '^(__)?hip[A-Z]') THEN 'runtime'
        WHEN starts_with(name, 'hsa_') THEN 'driver'
        WHEN regexp_matches(name, '::writeRows$|^hcc_activity_callback|^rpdflush') THEN 'overhead'
        WHEN regexp_matches(name, '^[a-z_][a-z0-9_]*::[a-z_]\w*$') THEN 'cpu_op'
        ELSE 'annotation'
    END AS category,
    device,
    TRY_CAST(tid AS BIGINT) AS stream,
    CASE said
        WHEN 'CopyHostToDevice' THEN 'HtoD'
        WHEN 'CopyDeviceToHost' THEN 'DtoH'
        WHEN 'CopyDeviceToDevice' THEN 'DtoD'
        WHEN 'CopyHostToHost' THEN 'HtoH'
    END AS copy_kind
FROM slices;
