-- Every interval on a host thread, sorted for nesting: thread, start, longer first, row.
-- Ranges of PyTorch's emit_nvtx end in ", seq = 12, op_id = 34": those are operators, except those whose name says that
-- a user or a wrapper drew them (the profiler calls these annotations too).
WITH calls AS (
    SELECT
        event_id,
        globalTid AS thread,
        start,
        "end",
        CASE
            WHEN eventClass = 0 THEN 'runtime'
            WHEN eventClass = 1 THEN 'driver'
            WHEN eventClass IS NOT NULL THEN 'other'
            WHEN value LIKE 'cuda%' THEN 'runtime'
            ELSE 'driver'
        END AS category,
        'CUPTI_ACTIVITY_KIND_RUNTIME' AS raw_category,
        value AS name,
        nullif(correlationId, 0) AS correlation,
        NULL AS sequence,
        sync_kind,
        records_event
    FROM runtime
    LEFT JOIN strings ON id = nameId
),
named_ranges AS (
    SELECT
        event_id,
        globalTid AS thread,
        start,
        "end",
        CASE WHEN coalesce(eventType, 59) IN (59, 70) THEN 'NVTX push/pop' ELSE 'NVTX start/end' END AS raw_category,
        coalesce(nullif(text, ''), value) AS name
    FROM nvtx
    LEFT JOIN strings ON id = textId
),
ranges AS (
    SELECT
        event_id,
        thread,
        start,
        "end",
        CASE
            WHEN NOT contains(name, ', op_id = ') AND NOT contains(name, ', seq = ') THEN 'annotation'
            WHEN name IS NULL THEN 'annotation'
            WHEN regexp_matches(name, '^(FSDP::|nccl:|gloo:|ucc:|mpi:|## |Optimizer\.|ProfilerStep#|enumerate\()')
            THEN 'annotation'
            WHEN regexp_matches(name, '^[\w:.]+(\.forward|\.rate_limiter), ') THEN 'annotation'
            ELSE 'cpu_op'
        END AS category,
        raw_category,
        name,
        NULL AS correlation,
        TRY_CAST(regexp_extract(name, ', seq = (\d+)', 1) AS BIGINT) AS sequence
    FROM named_ranges
),
os_calls AS (
    -- Classes 31 and 32 are the tracer's own marks, not calls.
    SELECT event_id, globalTid AS thread, start, "end",
        CASE WHEN coalesce(eventClass, 27) = 27 THEN 'os' ELSE 'other' END AS category,
        CASE WHEN coalesce(eventClass, 27) = 27 THEN 'OSRT_API' ELSE 'OSRT_API:' || eventClass END AS raw_category,
        nameId
    FROM osrt
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'os', 'SYSCALL', nameId FROM syscall
),
library_calls AS (
    SELECT event_id, globalTid AS thread, start, "end", 'MPI_P2P_EVENTS' AS raw_category, textId AS nameId FROM mpi_p2p
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'MPI_COLLECTIVES_EVENTS', textId FROM mpi_collective
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'MPI_START_WAIT_EVENTS', textId FROM mpi_wait
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'MPI_OTHER_EVENTS', textId FROM mpi_other
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUDNN_EVENTS', nameId FROM cudnn
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUBLAS_EVENTS', nameId FROM cublas
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUDA_GRAPH_EVENTS', nameId FROM graph_event
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUDA_GRAPH_NODE_EVENTS', nameId FROM graph_node_event
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUPTI_ACTIVITY_KIND_OPENACC_DATA', nameId FROM openacc_data
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH', nameId FROM openacc_launch
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'CUPTI_ACTIVITY_KIND_OPENACC_OTHER', nameId FROM openacc_other
),
profiler_work AS (
    SELECT event_id, globalTid AS thread, start, "end", 'CUPTI_ACTIVITY_KIND_OVERHEAD' AS raw_category, nameId,
        overheadType
    FROM overhead
    UNION ALL
    SELECT event_id, globalTid, start, "end", 'PROFILER_OVERHEAD', nameId, overheadType FROM profiler_overhead
),
slices AS (
    SELECT * FROM calls
    UNION ALL BY NAME
    SELECT * FROM ranges
    UNION ALL BY NAME
    SELECT event_id, thread, start, "end", category, raw_category, value AS name
    FROM os_calls
    LEFT JOIN strings ON id = nameId
    UNION ALL BY NAME
    SELECT event_id, thread, start, "end", 'other' AS category, raw_category, value AS name
    FROM library_calls
    LEFT JOIN strings ON id = nameId
    UNION ALL BY NAME
    SELECT event_id, thread, start, "end", 'overhead' AS category, raw_category,
        coalesce(
            value,
            CASE overheadType
                WHEN 2 THEN 'Driver Compiler'
                WHEN 3 THEN 'Buffer Flush'
                WHEN 4 THEN 'Instrumentation'
                WHEN 5 THEN 'Resource'
                WHEN 6 THEN 'Runtime Triggered Module Loading'
                WHEN 7 THEN 'Lazy Function Loading'
                WHEN 8 THEN 'Command Buffer Full'
            END
        ) AS name
    FROM profiler_work
    LEFT JOIN strings ON id = nameId
    UNION ALL BY NAME
    -- A thread that does not run opens and closes nothing, so these nest; running intervals do not and are elsewhere.
    SELECT event_id, globalTid AS thread, start, "end", 'os' AS category, 'SCHED_EVENTS' AS raw_category,
        'off-CPU' AS name
    FROM sched_intervals
    WHERE isSchedIn = 0
        AND "end" IS NOT NULL
)
SELECT
    event_id AS slice_id,
    coalesce(thread, 0) AS thread,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns,
    category,
    raw_category,
    name,
    correlation,
    sequence,
    sync_kind,
    coalesce(records_event, false)::BIGINT AS records_event
FROM slices
ORDER BY thread, start_ns, dur_ns DESC, slice_id;
