-- One row per recorded synchronisation that makes a host or a stream wait, in file order.
SELECT
    sync_id, kind, device, stream, start_ns,
    start_ns + dur_ns AS end_ns,
    correlation, wait_on_stream, wait_on_correlation
FROM canonical.syncs
WHERE trace_id = $trace_id
  AND kind IN ('stream', 'event', 'device', 'stream_wait')
ORDER BY sync_id
