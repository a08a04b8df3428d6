-- From the start of each device's first step to the end of its last. The argument is the name of a metric of steps.
CREATE OR REPLACE MACRO step_span(steps) AS TABLE (
    SELECT trace, rank, device, trace_id, min(start_ns) AS start_ns, max(start_ns + dur_ns) AS end_ns
    FROM query_table(steps)
    GROUP BY trace, rank, device, trace_id
);
