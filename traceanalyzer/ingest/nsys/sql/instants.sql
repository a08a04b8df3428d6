-- Marks drawn by NVTX, and page faults of the CPU on managed memory.
SELECT
    event_id, thread_id,
    'nvtx_mark' AS category,
    coalesce(nullif(text, ''), value) AS name,
    't' AS scope,
    start + getvariable('base_ns') AS start_ns
FROM nvtx_other
LEFT JOIN strings ON id = textId
LEFT JOIN thread_numbers ON thread = globalTid
WHERE eventType = 34 AND belongs(globalTid)
UNION ALL
SELECT event_id, NULL, 'page_fault', 'CPU page fault', 'p', start + getvariable('base_ns')
FROM cpu_page_fault
WHERE belongs(globalPid);
