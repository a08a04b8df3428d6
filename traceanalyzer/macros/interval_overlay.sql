-- Two sets of intervals, cut for each key where an interval of either set starts or ends: which sets cover each
-- stretch. A sweep: a set covers an instant while more of its merged intervals have started than ended.
CREATE OR REPLACE MACRO interval_overlay(first_set, second_set) AS TABLE (
    WITH merged AS (
        SELECT key, start_ns, end_ns, 1 AS first_open, 0 AS second_open FROM interval_merge(first_set)
        UNION ALL
        SELECT key, start_ns, end_ns, 0, 1 FROM interval_merge(second_set)
    ),
    bounds AS (
        SELECT
            key,
            unnest([start_ns, end_ns]) AS at_ns,
            unnest([first_open, -first_open]) AS first_open,
            unnest([second_open, -second_open]) AS second_open
        FROM merged
    ),
    instants AS (
        SELECT key, at_ns, sum(first_open) AS first_open, sum(second_open) AS second_open
        FROM bounds
        GROUP BY key, at_ns
    ),
    stretches AS (
        SELECT
            key, at_ns AS start_ns,
            lead(at_ns) OVER later AS end_ns,
            sum(first_open) OVER later AS first_open,
            sum(second_open) OVER later AS second_open
        FROM instants
        WINDOW later AS (PARTITION BY key ORDER BY at_ns)
    )
    SELECT key, start_ns, end_ns, first_open > 0 AS in_first, second_open > 0 AS in_second
    FROM stretches
    WHERE end_ns IS NOT NULL
);
