-- Every string, with its meaning if it names an API call or a kernel. Newer exporters also keep the texts of ranges here,
-- millions of them, so patterns are tried only on strings with a matching beginning.
CREATE TABLE strings AS
SELECT
    id, value,
    contains(value, 'nccl')
        OR contains(value, 'Nccl')
        OR contains(value, 'NCCL')
        OR contains(value, 'rccl')
        OR contains(value, 'cross_device_reduce') AS is_comm,
    starts_with(value, 'cuda') AS is_runtime,
    -- The call's name gives the kind of synchronisation: the number beside it changed its meaning four times.
    CASE
        WHEN NOT starts_with(value, 'cu') THEN NULL
        WHEN regexp_matches(value, '^(cuda|cu)StreamWaitEvent(_|$)') THEN 'stream_wait'
        WHEN regexp_matches(value, '^(cuda|cu)StreamSynchronize(_|$)') THEN 'stream'
        WHEN regexp_matches(value, '^(cuda|cu)EventSynchronize(_|$)') THEN 'event'
        WHEN regexp_matches(value, '^(cuda|cu)(Device|Thread|Ctx)Synchronize(_|$)') THEN 'device'
        WHEN regexp_matches(value, '^(cuda|cu)EventQuery(_|$)') THEN 'event_query'
        WHEN regexp_matches(value, '^(cuda|cu)StreamQuery(_|$)') THEN 'stream_query'
    END AS sync_kind,
    starts_with(value, 'cudaEventRecord') OR starts_with(value, 'cuEventRecord') AS records_event
FROM string_ids;

DROP TABLE string_ids;
