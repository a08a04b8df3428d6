-- The union of each key's intervals as disjoint ones: rows (key, start_ns, end_ns) of a table or view, by its name.
-- Intervals are [start, end); those that touch become one; empty ones vanish.
CREATE OR REPLACE MACRO interval_merge(intervals) AS TABLE (
    WITH reached AS (
        SELECT
            key,
            start_ns,
            end_ns,
            max(end_ns) OVER (
                PARTITION BY key ORDER BY start_ns, end_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING
            ) AS reached_ns
        FROM query_table(intervals)
        WHERE end_ns > start_ns
    ),
    islands AS (
        SELECT
            key,
            start_ns,
            end_ns,
            -- Not a count with a filter: DuckDB counts those anew for every row. Of equal intervals the one that reaches
            -- least comes first, or it would begin an island that another one of them has joined already.
            sum(CASE WHEN start_ns <= reached_ns THEN 0 ELSE 1 END) OVER (
                PARTITION BY key ORDER BY start_ns, end_ns, reached_ns NULLS FIRST ROWS UNBOUNDED PRECEDING
            ) AS island
        FROM reached
    )
    SELECT
        key,
        min(start_ns) AS start_ns,
        max(end_ns) AS end_ns
    FROM islands
    GROUP BY key, island
);
