-- Intervals that nest on no thread: when a thread ran on which CPU, ranges that end on another thread, page faults.
SELECT
    event_id,
    (globalTid >> 24 & 16777215)::VARCHAR AS pid,
    (globalTid & 16777215)::VARCHAR AS tid,
    'sched' AS category,
    'SCHED_EVENTS' AS raw_category,
    'CPU ' || cpu AS name,
    NULL AS async_id,
    start + getvariable('base_ns') AS start_ns,
    "end" - start AS dur_ns
FROM sched_intervals
WHERE isSchedIn = 1 AND belongs(globalTid)
UNION ALL
SELECT
    event_id,
    (globalTid >> 24 & 16777215)::VARCHAR,
    (globalTid & 16777215)::VARCHAR,
    'async',
    'NVTX start/end',
    coalesce(nullif(text, ''), value),
    rangeId::VARCHAR,
    start + getvariable('base_ns'),
    "end" - start
FROM nvtx_crossing
LEFT JOIN strings ON id = textId
WHERE belongs(globalTid)
UNION ALL
SELECT
    event_id,
    (globalPid >> 24 & 16777215)::VARCHAR,
    NULL,
    'page_fault',
    'CUDA_UM_GPU_PAGE_FAULT_EVENTS',
    'GPU page faults',
    NULL,
    start + getvariable('base_ns'),
    "end" - start
FROM gpu_page_fault
WHERE belongs(globalPid);
