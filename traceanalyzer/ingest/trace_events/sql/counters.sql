-- One row per argument of each counter event; the value of an argument that is no number is NULL.
SELECT
    samples.event_id, samples.pid,
    samples.name || CASE WHEN samples.id IS NULL THEN '' ELSE ' id: ' || samples.id END AS name,
    series.key AS series,
    samples.start_ns + $base_ns AS start_ns,
    CASE
        WHEN json_type(series.value) NOT IN ('ARRAY', 'OBJECT') AND isfinite(TRY_CAST(series.value ->> '$' AS DOUBLE))
        THEN TRY_CAST(series.value ->> '$' AS DOUBLE)
    END AS value
FROM read_parquet($other) AS samples, json_each(samples.args) AS series
WHERE samples.phase = 'C'
    AND json_type(samples.args) = 'OBJECT'
ORDER BY event_id, series;
