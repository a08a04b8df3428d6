-- Every timed event that is neither a host slice nor GPU work, and the naming events, as written.
SELECT
    $base + position AS event_id,
    class, phase, raw_category, category, name, pid, tid, start_ns,
    greatest(dur_ns, 0) AS dur_ns,
    id, id2, bp, scope, flow_in, flow_out, lost_flows, args
FROM chunk
WHERE loss IS NULL
    AND (phase <> 'X' OR class IN ('sync', 'async') OR binds);
