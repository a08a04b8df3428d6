-- One row per function of the program that CPU samples found while a device waited for a host of which nothing else was
-- recorded, most samples first; share of all samples that fall into this time.
WITH waits AS (
    SELECT trace_id, start_ns, start_ns + dur_ns AS end_ns
    FROM ledger_rows
    WHERE kept AND cause = 'host.other'
),
sampled AS (
    SELECT samples.own_function, count(*) AS sample_count, sum(count(*)) OVER () AS all_count
    FROM cpu_samples AS samples
    ASOF JOIN waits ON waits.trace_id = samples.trace_id AND waits.start_ns <= samples.start_ns
    WHERE samples.start_ns < waits.end_ns
    GROUP BY samples.own_function
)
SELECT own_function AS name, sample_count::BIGINT AS sample_count, sample_count / all_count AS share
FROM sampled
WHERE own_function IS NOT NULL
  AND sample_count >= 5
  AND sample_count >= 0.05 * all_count
ORDER BY sample_count DESC, own_function
LIMIT 3
