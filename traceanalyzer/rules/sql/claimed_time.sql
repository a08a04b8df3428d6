-- One row per device: the time that a rule's claims select, before it is shared out among findings.
WITH claimed AS (
    SELECT NULL /* claimed */
)
SELECT
    trace_id, device,
    sum(dur_ns)::BIGINT AS claimed_ns,
    count(*) AS claimed_count,
    count(DISTINCT step) AS step_count,
    max(dur_ns) AS worst_ns,
    arg_max(step, (dur_ns, -item_id)) AS worst_step,
    coalesce(sum(dur_ns) FILTER (WHERE confidence = 'resolved'), 0) / nullif(sum(dur_ns), 0) AS resolved_share
FROM claimed
GROUP BY trace_id, device
