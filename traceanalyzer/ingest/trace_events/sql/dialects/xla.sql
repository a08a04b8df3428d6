-- XLA's own JSON: streams of GPUs and operations of TPUs are work, other lines of devices repeat it or lie beside it,
-- and slices of the host are what their names and arguments say. `$derived` are the names of lines that repeat others.
INSERT INTO recast BY NAME
WITH lines AS (
    SELECT
        xla_slices.* REPLACE (coalesce(xla_slices.name, '') AS name),
        regexp_full_match(lane, $derived)
            OR coalesce(TRY_CAST(tid AS BIGINT) & 4294967295 BETWEEN 3735928559 AND 3735932927, FALSE) AS is_derived,
        xla_names.category AS named,
        -- A line without a frame or a step is no line of the user's program.
        bool_or(coalesce(xla_names.category = 'python' OR raw_category = 'step_num', FALSE))
            OVER (PARTITION BY pid, tid) AS is_users
    FROM xla_slices
    LEFT JOIN xla_names ON xla_names.name = coalesce(long_name, xla_slices.name) AND is_host
),
classed AS (
    SELECT
        *,
        CASE
            WHEN is_host THEN 'host'
            WHEN on_tpu THEN if(lane = 'XLA Ops', 'gpu', 'async')
            WHEN device IS NULL OR is_derived OR is_memory OR lane IN ('CUPTI overhead', '_counters_')
                OR (starts_with(name, 'UM_') AND NOT contains(name, 'BYTES_TRANSFER'))
            THEN 'async'
            ELSE if(starts_with(lane, 'Stream'), 'gpu', 'host')
        END AS class
    FROM lines
)
SELECT
    event_id, class,
    CASE
        WHEN class = 'async' AND on_tpu THEN if(lane = 'Steps', 'derived', 'span')
        WHEN class = 'async' THEN if(is_derived, 'derived', if(is_memory, 'memory', 'span'))
        WHEN class = 'gpu' AND on_tpu THEN 'op'
        WHEN class = 'gpu'
        THEN CASE
            WHEN starts_with(classed.name, 'CudaGraphExec:') THEN 'graph'
            WHEN regexp_matches(classed.name, '^(UM_|Memcpy|Copy(Host|Device)To(Host|Device))') THEN 'memcpy'
            WHEN starts_with(classed.name, 'Memset') THEN 'memset'
            ELSE 'kernel'
        END
        WHEN raw_category = 'step_num' THEN 'annotation'
        WHEN correlation IS NOT NULL THEN if(named = 'runtime', 'runtime', 'driver')
        WHEN has_hlo_op THEN 'cpu_op'
        WHEN named = 'annotation' AND (is_own OR NOT is_users) THEN 'other'
        ELSE named
    END AS category,
    if(class = 'async', lane, NULL) AS raw_category,
    coalesce(xla_ops.name, if(is_host, long_name, NULL)) AS name,
    if(class = 'async', process, NULL) AS pid,
    device,
    if(on_tpu, NULL, TRY_CAST(tid AS BIGINT)) AS stream,
    xla_ops.start_ns, xla_ops.dur_ns, correlation, xla_ops.size_bytes, xla_ops.copy_kind, xla_ops.is_comm,
    xla_ops.collective, xla_ops.self_ns, xla_ops.run_id
FROM classed
LEFT JOIN xla_ops USING (event_id);
-- AMD's copies are kernels: their launch says where they go.
INSERT INTO recast BY NAME
WITH calls AS (
    SELECT correlation, arg_min(name, start_ns) AS call
    FROM xla_slices
    WHERE is_host AND correlation IS NOT NULL
    GROUP BY correlation
)
SELECT
    event_id,
    CASE
        WHEN regexp_matches(call, 'emcpy.*H(to|2)D', 'i') THEN 'HtoD'
        WHEN regexp_matches(call, 'emcpy.*D(to|2)H', 'i') THEN 'DtoH'
        WHEN regexp_matches(call, 'emcpy.*D(to|2)D', 'i') THEN 'DtoD'
        WHEN regexp_matches(call, 'emcpy.*P(to|2)P', 'i') THEN 'PtoP'
    END AS copy_kind
FROM read_parquet($gpu) AS gpu
JOIN calls USING (correlation)
WHERE gpu.copy_kind IS NULL AND (kind = 'memcpy' OR starts_with(gpu.name, '__amd_rocclr_copy'));
