-- The arguments of every event that is kept, as written.
SELECT $base + position AS event_id, args
FROM chunk
WHERE args IS NOT NULL
    AND loss IS NULL
    AND phase <> 'M'
ORDER BY position;
