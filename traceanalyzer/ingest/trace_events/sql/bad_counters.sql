-- How many samples of counters hold no number, and the name of the first counter of them.
WITH samples AS (
    SELECT
        event_id, name,
        CASE WHEN json_type(args) = 'OBJECT' THEN args ELSE json_object('', args) END AS args
    FROM read_parquet($other)
    WHERE phase = 'C'
)
SELECT count(*) AS sample_count, arg_min(name, event_id) AS example
FROM samples, json_each(samples.args) AS series
WHERE json_type(series.value) IN ('ARRAY', 'OBJECT')
    OR NOT coalesce(isfinite(TRY_CAST(series.value ->> '$' AS DOUBLE)), FALSE);
