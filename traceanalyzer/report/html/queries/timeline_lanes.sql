-- One row per device with GPU work, and per trace of a run without any: where its ledger begins and ends, and where the
-- analyzed time begins.
WITH pieces AS (
    SELECT trace_id, device, start_ns, dur_ns, kept FROM attribution.ledger_rows
    UNION ALL
    SELECT trace_id, NULL, start_ns, dur_ns, kept FROM host_ledger_rows
)
SELECT
    trace_id, device,
    min(start_ns) AS first_ns,
    max(start_ns + dur_ns) AS last_ns,
    coalesce(min(start_ns) FILTER (WHERE kept), min(start_ns)) AS begin_ns
FROM pieces
GROUP BY trace_id, device
ORDER BY trace_id, device
