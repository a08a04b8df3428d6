-- The time that both of two sets of intervals cover, for each key.
CREATE OR REPLACE MACRO interval_intersect(first_set, second_set) AS TABLE (
    SELECT key, start_ns, end_ns
    FROM interval_overlay(first_set, second_set)
    WHERE in_first AND in_second
);
