-- Whether a process (or a thread's process) belongs to the trace being written. Without a scope there is one trace and
-- everything does; processes that drive no GPU go with the first trace.
CREATE MACRO belongs(global_id) AS (
    getvariable('scope') IS NULL
    OR (global_id & -16777216) = getvariable('scope')
    OR (getvariable('takes_foreign') AND NOT list_contains(getvariable('gpu_scopes'), global_id & -16777216))
);

-- Why pages of managed memory moved.
CREATE MACRO migration_cause(number) AS (
    CASE number
        WHEN 1 THEN 'user prefetch'
        WHEN 2 THEN 'page fault'
        WHEN 3 THEN 'speculative prefetch'
        WHEN 4 THEN 'eviction'
        WHEN 5 THEN 'access counters'
    END
);

-- The kinds of host slices and the tables they come from: one byte per row, where sorted rows would carry texts.
CREATE TYPE slice_category AS ENUM ('cpu_op', 'annotation', 'runtime', 'driver', 'overhead', 'os', 'other');
CREATE TYPE slice_source AS ENUM (
    'CUPTI_ACTIVITY_KIND_RUNTIME',
    'NVTX push/pop',
    'NVTX start/end',
    'OSRT_API',
    'OSRT_API mark',
    'SYSCALL',
    'MPI_P2P_EVENTS',
    'MPI_COLLECTIVES_EVENTS',
    'MPI_START_WAIT_EVENTS',
    'MPI_OTHER_EVENTS',
    'CUDNN_EVENTS',
    'CUBLAS_EVENTS',
    'CUDA_GRAPH_EVENTS',
    'CUDA_GRAPH_NODE_EVENTS',
    'CUPTI_ACTIVITY_KIND_OPENACC_DATA',
    'CUPTI_ACTIVITY_KIND_OPENACC_LAUNCH',
    'CUPTI_ACTIVITY_KIND_OPENACC_OTHER',
    'CUPTI_ACTIVITY_KIND_OVERHEAD',
    'PROFILER_OVERHEAD',
    'SCHED_EVENTS'
);
