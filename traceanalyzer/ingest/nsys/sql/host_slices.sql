-- Every interval on a host thread; the code that sorts them by thread and start orders tied rows for nesting.
-- Rows are kept narrow: categories are numbers and names are ids, except the texts of ranges.
WITH calls AS (
    SELECT
        event_id, globalTid AS thread, start, "end",
        CASE
            WHEN eventClass = 0 THEN 'runtime'
            WHEN eventClass = 1 THEN 'driver'
            WHEN eventClass IS NOT NULL THEN 'other'
            WHEN is_runtime THEN 'runtime'
            ELSE 'driver'
        END AS category,
        'CUPTI_ACTIVITY_KIND_RUNTIME' AS raw_category,
        nameId,
        -- nsys numbers calls with 32 bits; the first and the last of these numbers stand for none.
        CASE WHEN correlationId NOT IN (0, -1, 4294967295) THEN correlationId END AS correlation
    FROM runtime
    LEFT JOIN (FROM strings WHERE is_runtime) AS names ON id = nameId
),
ranges AS (
    SELECT
        event_id, globalTid AS thread, start, "end",
        'annotation' AS category,
        CASE WHEN coalesce(eventType, 59) IN (59, 70) THEN 'NVTX push/pop' ELSE 'NVTX start/end' END AS raw_category,
        coalesce(nullif(text, ''), value) AS text
    FROM nvtx
    LEFT JOIN strings ON id = textId
),
os_calls AS (
    -- Classes 31 and 32 are the tracer's own marks, not calls.
    SELECT event_id, globalTid AS thread, start, "end",
        CASE WHEN coalesce(eventClass, 27) = 27 THEN 'os' ELSE 'other' END AS category,
        CASE WHEN coalesce(eventClass, 27) = 27 THEN 'OSRT_API' ELSE 'OSRT_API mark' END AS raw_category,
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
    SELECT * FROM os_calls
    UNION ALL BY NAME
    SELECT *, 'other' AS category FROM library_calls
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
        ) AS text
    FROM profiler_work
    LEFT JOIN strings ON id = nameId
    UNION ALL BY NAME
    -- A thread that does not run opens and closes nothing, so these intervals nest; running intervals do not, and are elsewhere.
    SELECT event_id, globalTid AS thread, start, "end", 'os' AS category, 'SCHED_EVENTS' AS raw_category,
        'off-CPU' AS text
    FROM sched_intervals
    WHERE isSchedIn = 0 AND "end" IS NOT NULL
)
SELECT
    event_id::UINTEGER AS slice_id,
    coalesce(thread, 0) AS thread,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns,
    category::slice_category AS category,
    raw_category::slice_source AS raw_category,
    nameId AS name_id, text, correlation
FROM slices;
