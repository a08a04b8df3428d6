-- The part of an interval after the latest end of those before it (NULL: there are none). Over intervals in the order of
-- their starts, the parts add up to the time that at least one interval covers.
CREATE OR REPLACE MACRO uncovered_ns(start_ns, end_ns, latest_end_ns) AS
    greatest(end_ns - greatest(start_ns, coalesce(latest_end_ns, start_ns)), 0)
