-- How long after their calls operations start that a device was idle before, as it waits for nothing but their launch: of
-- how many, and the longest delay of the quickest quarter, of those that do not follow on work of another device, whose results
-- they may wait for: it ended meanwhile, and that device has nothing more to do for a while. The quickest of each eighth of them lie on a line where one
-- clock runs faster: by how much of the time, and by how much in all.
WITH placed AS (
    SELECT
        op_id, start_ns, call_start_ns,
        start_ns - call_start_ns AS delay_ns,
        start_ns - call_end_ns AS returned_ns,
        start_ns - max(end_ns) OVER (
            ORDER BY start_ns, end_ns, op_id ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
        ) AS idle_ns
    FROM bounded_work
    WHERE device = $device
),
others AS (
    SELECT start_ns, max(end_ns) OVER (ORDER BY start_ns, end_ns) AS end_ns
    FROM bounded_work
    WHERE device <> $device
),
idle AS (
    SELECT
        delay_ns, returned_ns,
        call_start_ns - min(call_start_ns) OVER () AS at_ns,
        ntile(8) OVER (ORDER BY call_start_ns, op_id) AS eighth,
        NOT coalesce(
            before.end_ns > call_start_ns
            AND 10 * (placed.start_ns - before.end_ns) BETWEEN 0 AND delay_ns
            AND coalesce(10 * (after.start_ns - placed.start_ns) > delay_ns, TRUE),
            FALSE
        ) AS is_alone
    FROM placed
    ASOF LEFT JOIN others AS before ON before.start_ns <= placed.start_ns
    ASOF LEFT JOIN others AS after ON after.start_ns > placed.start_ns
    WHERE idle_ns > $idle_ns AND delay_ns IS NOT NULL
),
quickest AS (
    SELECT min(delay_ns) AS delay_ns, arg_min(at_ns, delay_ns) AS at_ns
    FROM idle
    GROUP BY eighth
),
line AS (
    SELECT
        regr_slope(delay_ns, at_ns) AS drift_share,
        max(at_ns) - min(at_ns) AS length_ns,
        regr_r2(delay_ns, at_ns) AS fit
    FROM quickest
)
SELECT
    count(*) FILTER (WHERE is_alone),
    CAST(quantile_disc(delay_ns, 0.25) FILTER (WHERE is_alone) AS BIGINT),
    CAST(quantile_disc(returned_ns, 0.25) FILTER (WHERE is_alone) AS BIGINT),
    count(*),
    any_value(drift_share),
    any_value(drift_share * length_ns),
    any_value(fit)
FROM idle
CROSS JOIN line;
