-- The gaps between each key's first start and last end that none of its intervals covers.
CREATE OR REPLACE MACRO interval_gaps(intervals) AS TABLE (
    WITH islands AS (
        SELECT key, end_ns AS start_ns, lead(start_ns) OVER (PARTITION BY key ORDER BY start_ns) AS end_ns
        FROM interval_merge(intervals)
    )
    SELECT key, start_ns, end_ns
    FROM islands
    WHERE end_ns IS NOT NULL
);
