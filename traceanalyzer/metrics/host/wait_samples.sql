-- One row per wait of a device for the host, and function of the program that CPU samples found during it.
--
-- Waits are the pieces of the ledger in buckets of the host. Samples are those of the threads that launch; a sample
-- counts for the innermost function around it that is not of the system, of the driver or of a runtime. Nsight Systems
-- takes about a sample a millisecond, so that shorter waits have none. Samples of a wait whose function is not known
-- have a row with function NULL. Only Nsight Systems records samples (`--sample=process-tree`).
--
-- empty without: canonical.cpu_samples
-- columns: trace, rank, trace_id
--   device             INTEGER  device that waits
--   row_id             BIGINT   the wait (attribution.ledger_rows.row_id)
--   cause              VARCHAR  cause of the wait in the ledger
--   dur_ns             BIGINT   length of the wait
--   function           VARCHAR  function of the program; NULL: not known
--   sample_count       BIGINT   samples in the function
--   wait_sample_count  BIGINT   samples in the wait
WITH waits AS (
    SELECT trace_id, device, row_id, cause, start_ns, dur_ns
    FROM attribution.ledger_rows
    WHERE bucket LIKE 'host.%'
),
launching AS (
    SELECT trace_id, thread_id
    FROM thread_roles
    WHERE role = 'launching'
),
samples AS (
    SELECT trace_id, start_ns, own_function
    FROM canonical.cpu_samples
    SEMI JOIN launching USING (trace_id, thread_id)
),
devices AS (
    SELECT DISTINCT trace_id, device
    FROM waits
),
-- One host sample may fall into waits of several devices.
device_samples AS (
    SELECT samples.trace_id, devices.device, samples.start_ns, samples.own_function
    FROM samples
    JOIN devices USING (trace_id)
)
SELECT
    traces.trace, traces.rank, waits.trace_id, waits.device, waits.row_id,
    any_value(waits.cause) AS cause,
    any_value(waits.dur_ns) AS dur_ns,
    samples.own_function AS function,
    count(*) AS sample_count,
    CAST(sum(count(*)) OVER (PARTITION BY waits.trace_id, waits.device, waits.row_id) AS BIGINT) AS wait_sample_count
FROM device_samples AS samples
ASOF JOIN waits
  ON waits.trace_id = samples.trace_id
 AND waits.device = samples.device
 AND waits.start_ns <= samples.start_ns
JOIN canonical.traces AS traces ON traces.trace_id = waits.trace_id
WHERE samples.start_ns < waits.start_ns + waits.dur_ns
GROUP BY traces.trace, traces.rank, waits.trace_id, waits.device, waits.row_id, samples.own_function
ORDER BY waits.trace_id, waits.device, waits.row_id, sample_count DESC, function
