-- How long after their calls operations start that a device was idle before, as it waits for nothing but their launch: of
-- how many, and the longest delay of the quickest quarter.
WITH placed AS (
    SELECT
        start_ns - call_start_ns AS delay_ns,
        start_ns - call_end_ns AS returned_ns,
        start_ns - max(end_ns) OVER (
            ORDER BY start_ns, end_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ns
    FROM bounded_work
    WHERE device = $device
)
SELECT
    count(*),
    CAST(quantile_disc(delay_ns, 0.25) AS BIGINT),
    CAST(quantile_disc(returned_ns, 0.25) AS BIGINT)
FROM placed
WHERE idle_ns > $idle_ns AND delay_ns IS NOT NULL;
