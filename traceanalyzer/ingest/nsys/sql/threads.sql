-- Threads of one trace with their names; a thread that was renamed keeps its last name.
SELECT
    thread_id,
    (thread >> 24 & 16777215)::VARCHAR AS pid,
    (thread & 16777215)::VARCHAR AS tid,
    processes.name AS process_name,
    coalesce(drawn.name, names.name) AS thread_name
FROM thread_numbers
LEFT JOIN (
    SELECT globalPid, any_value(name) AS name
    FROM process
    GROUP BY globalPid
) AS processes ON processes.globalPid = thread & -16777216
LEFT JOIN (
    SELECT globalTid, max_by(value, thread_name.event_id) AS name
    FROM thread_name
    LEFT JOIN strings ON id = nameId
    GROUP BY globalTid
) AS names ON names.globalTid = thread
LEFT JOIN (
    -- NVTX event type 39 names a thread.
    SELECT globalTid, max_by(coalesce(nullif(text, ''), value), event_id) AS name
    FROM nvtx_other
    LEFT JOIN strings ON id = textId
    WHERE eventType = 39
    GROUP BY globalTid
) AS drawn ON drawn.globalTid = thread
WHERE belongs(thread)
ORDER BY thread_id;
