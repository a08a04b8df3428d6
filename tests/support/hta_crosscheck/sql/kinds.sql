-- What HTA takes each event for, and whether it knows the call that launched it.
CREATE OR REPLACE TEMP TABLE peer_events AS
SELECT
    events.*,
    peer_kinds.peer_kind,
    list_contains($statistics_calls, call_name) AS in_statistics,
    list_contains($queue_calls, call_name) AS in_queue
FROM peer_events AS events
LEFT JOIN peer_kinds ON peer_kinds.name IS NOT DISTINCT FROM events.name
