-- What the profiled processes printed. Long output is cut at its beginning: what went wrong stands at its end.
SELECT
    event_id,
    (globalPid >> 24 & 16777215)::VARCHAR AS pid,
    files.value AS file,
    right(contents.value, 16000) AS text
FROM process_stream
LEFT JOIN strings AS files ON files.id = filenameId
JOIN strings AS contents ON contents.id = contentId
WHERE globalPid IS NULL
    OR belongs(globalPid)
ORDER BY event_id;
