-- One row per step of a device, and of the thread that runs the steps of a trace without GPU work: its interval from the
-- zero of its trace on ($1: the traces, $2: the zeros), and why it does not count.
WITH zeros AS (
    SELECT unnest(CAST($1 AS INTEGER[])) AS trace_id, unnest(CAST($2 AS BIGINT[])) AS zero_ns
),
marked AS (
    SELECT trace_id, CAST(NULL AS INTEGER) AS device, regexp_extract(name, '\d+$') AS step, start_ns, start_ns + dur_ns AS end_ns
    FROM canonical.host_slices
    SEMI JOIN host_ledger_rows USING (trace_id, thread_id)
    WHERE marks_step(category, raw_category, name)
)
SELECT trace_id, device, CAST(step AS VARCHAR) AS step, start_ns - zero_ns AS start_ns, end_ns - zero_ns AS end_ns, drop_reason
FROM attribution.steps
JOIN zeros USING (trace_id)
WHERE start_ns IS NOT NULL AND end_ns > start_ns
UNION ALL
SELECT
    trace_id, device, step,
    start_ns - zero_ns,
    end_ns - zero_ns,
    CASE WHEN NOT bool_or(kept) THEN 'warm-up' END
FROM marked
JOIN zeros USING (trace_id)
JOIN (SELECT trace_id, kept, start_ns AS at_ns FROM host_ledger_rows) USING (trace_id)
WHERE at_ns >= start_ns AND at_ns < end_ns
GROUP BY trace_id, device, step, start_ns, end_ns, zero_ns
ORDER BY trace_id, device, start_ns
