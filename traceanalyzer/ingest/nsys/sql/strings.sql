-- Every string once, with what its name tells where it names an API call or a kernel.
CREATE TABLE strings AS
SELECT
    id,
    value,
    regexp_matches(value, 'nccl|rccl|cross_device_reduce', 'i') AS is_comm,
    -- The kind of synchronisation is told by the call's name: the number beside it changed its meaning four times.
    CASE regexp_extract(value, '^(?:cuda|cu)(Device|Ctx|Thread|Stream|Event)(Synchronize|WaitEvent|Query)(?:_|$)', 2)
        WHEN 'WaitEvent' THEN 'stream_wait'
        WHEN 'Query' THEN lower(regexp_extract(value, '^(?:cuda|cu)(Stream|Event)Query', 1)) || '_query'
        WHEN 'Synchronize' THEN
            CASE regexp_extract(value, '^(?:cuda|cu)([A-Z][a-z]+)Synchronize', 1)
                WHEN 'Stream' THEN 'stream'
                WHEN 'Event' THEN 'event'
                ELSE 'device'
            END
    END AS sync_kind,
    regexp_matches(value, '^(cuda|cu)EventRecord') AS records_event
FROM (
    SELECT
        id,
        any_value(value) AS value
    FROM string_ids
    GROUP BY id
);
