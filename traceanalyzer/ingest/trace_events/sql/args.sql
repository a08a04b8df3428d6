-- The arguments of every event that is kept, as written.
SELECT
    $base + rowid AS event_id,
    args
FROM chunk
WHERE args IS NOT NULL
    AND args <> '{}'
    AND phase <> 'M';
