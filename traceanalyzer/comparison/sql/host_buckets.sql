-- One row per trace and bucket of its steps on the host. Only read where a run has no GPU work.
SELECT trace, bucket, dur_ns
FROM host_ledger
WHERE step_count > 0
ORDER BY trace_id, bucket
