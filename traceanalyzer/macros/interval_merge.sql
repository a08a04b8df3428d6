-- The union of each key's intervals, as disjoint intervals. The argument names a table or view with the columns
-- key, start_ns and end_ns. Intervals are [start, end); intervals that touch become one; empty intervals are dropped.
-- Keys that are numbers sort several times as fast as structs.
CREATE OR REPLACE MACRO interval_merge(intervals) AS TABLE (
    WITH reached AS (
        SELECT
            key, start_ns,
            max(end_ns) OVER (timeline ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS reached_ns,
            max(end_ns) OVER (timeline ROWS BETWEEN UNBOUNDED PRECEDING AND UNBOUNDED FOLLOWING) AS last_ns
        FROM query_table(intervals)
        WHERE end_ns > start_ns
        WINDOW timeline AS (PARTITION BY key ORDER BY start_ns, end_ns)
    ),
    -- An island starts at an interval that no earlier interval reaches; it ends at the last end before the next island.
    heads AS (
        SELECT key, start_ns, reached_ns, last_ns
        FROM reached
        WHERE coalesce(reached_ns < start_ns, TRUE)
    )
    SELECT
        key, start_ns,
        coalesce(lead(reached_ns) OVER (PARTITION BY key ORDER BY start_ns), last_ns) AS end_ns
    FROM heads
);
