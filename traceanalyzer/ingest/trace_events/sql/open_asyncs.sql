-- The async begin events that never end.
SELECT event_id, name
FROM async_begins($other)
WHERE end_ns IS NULL
ORDER BY event_id;
