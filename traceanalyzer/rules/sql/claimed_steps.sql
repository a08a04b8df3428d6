-- One row per step: the time that a rule's claims select on some devices.
WITH claimed AS (
    SELECT NULL /* claimed */
)
SELECT step, sum(dur_ns)::BIGINT AS dur_ns
FROM claimed
WHERE step IS NOT NULL AND list_contains($devices::VARCHAR[], trace_id || '/' || device)
GROUP BY step
ORDER BY step
