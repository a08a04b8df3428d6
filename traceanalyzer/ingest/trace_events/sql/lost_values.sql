-- How many values of async events and flows are lost, with the first event that lost one and its name.
SELECT
    min(event_id) AS event_id,
    arg_min(name, event_id) AS name,
    CAST(sum(lost) AS BIGINT) AS lost
FROM (
    SELECT event_id, name, is_lost(id2, coalesce(id2 ->> '$.global', id2 ->> '$.local')) + lost_flows AS lost
    FROM read_parquet($other)
    WHERE id2 IS NOT NULL OR lost_flows > 0
)
WHERE lost > 0;
