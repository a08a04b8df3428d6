-- Work that starts out of the order of its lane, as a table: after what was launched after it, or before what was launched
-- before it. It starts behind the one and ahead of the other. Launches whose calls overlap have no order, and of lanes
-- in which many are out of order, the order is unknown.
CREATE OR REPLACE TEMP TABLE misplaced_starts AS
WITH launched AS (
    -- Few columns are sorted.
    SELECT
        op_id, lane, start_ns, call_start_ns, call_end_ns,
        lag(start_ns) OVER launches AS before_ns,
        lag(end_ns) OVER launches AS before_end_ns,
        lag(call_end_ns) OVER launches AS before_call_end_ns,
        lead(start_ns) OVER launches AS after_ns,
        lead(call_start_ns) OVER launches AS after_call_ns,
        lag(correlation) OVER launches AS before_id,
        lead(correlation) OVER launches AS after_id,
        coalesce(
            if(start_ns > after_ns, correlation > after_id AND coalesce(correlation > before_id, TRUE),
                correlation < before_id AND coalesce(correlation < after_id, TRUE)),
            FALSE
        ) AS is_call
    FROM device_work
    WHERE call_start_ns IS NOT NULL
    WINDOW launches AS (PARTITION BY lane ORDER BY call_start_ns, call_end_ns, op_id)
),
misplaced AS (
    SELECT
        *,
        if(is_call, NULL, least(greatest(before_end_ns, call_start_ns), after_ns)) AS true_ns,
        count(*) OVER (PARTITION BY lane) AS misplaced_count
    FROM launched
    WHERE coalesce(before_ns <= after_ns, is_call)
        AND coalesce(before_call_end_ns <= call_start_ns, is_call)
        AND coalesce(call_end_ns <= after_call_ns, is_call)
        AND (start_ns > after_ns + $overlap_ns OR start_ns < before_ns - $overlap_ns)
),
lanes AS (
    SELECT lane, count(*) AS work_count
    FROM device_work
    GROUP BY lane
)
SELECT misplaced.op_id, work.name, misplaced.start_ns AS recorded_ns, true_ns AS start_ns
FROM device_work AS work
JOIN misplaced USING (op_id)
JOIN lanes ON lanes.lane = misplaced.lane
WHERE misplaced_count <= greatest($few, work_count * $few_share);
