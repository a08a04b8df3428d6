-- One row per numeric argument of each counter event.
SELECT
    samples.event_id,
    samples.pid,
    samples.name || CASE WHEN samples.id IS NULL THEN '' ELSE ' id: ' || samples.id END AS name,
    series.key AS series,
    samples.start_ns + $base_ns AS start_ns,
    TRY_CAST(series.value ->> '$' AS DOUBLE) AS value
FROM read_parquet($other) AS samples, json_each(samples.args) AS series
WHERE samples.phase = 'C'
    AND json_type(samples.args) = 'OBJECT'
ORDER BY event_id, series;
