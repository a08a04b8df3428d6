-- What of the chunk is not read as written: one row a defect, with the first event's position in the chunk.
SELECT
    coalesce(loss, 'negative-duration') AS defect,
    count(*) AS defect_count,
    min(position) AS first_position,
    arg_min(name, position) AS example
FROM chunk
WHERE loss <> 'empty'
    OR (loss IS NULL AND phase = 'X' AND dur_ns < 0)
GROUP BY defect;
