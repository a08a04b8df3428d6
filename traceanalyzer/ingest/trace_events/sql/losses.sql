-- The defects of the chunk: one row per defect, with the position of its first event in the chunk. A time that no clock
-- shows stands behind the name: whoever reads it knows the unit.
SELECT
    CASE
        WHEN loss IS NOT NULL THEN loss
        WHEN phase = 'X' AND dur_ns < 0 THEN 'negative-duration'
        WHEN has_long_text THEN 'long-text'
        ELSE 'bad-arguments'
    END AS defect,
    count(*) AS defect_count,
    min(position) AS first_position,
    arg_min(
        name || CASE WHEN loss = 'bad-timestamp' AND isfinite(start_us) THEN format(' at {:.0f} µs', start_us) ELSE '' END,
        position
    ) AS example
FROM chunk
WHERE loss <> 'empty'
    OR (loss IS NULL AND phase = 'X' AND dur_ns < 0)
    OR (loss IS NULL AND has_long_text)
    OR (loss IS NULL AND phase <> 'C' AND NOT starts_with(args, '{'))
GROUP BY defect;
