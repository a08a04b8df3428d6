-- The time that the first of two sets of intervals covers and the second does not, for each key.
CREATE OR REPLACE MACRO interval_subtract(first_set, second_set) AS TABLE (
    SELECT key, start_ns, end_ns
    FROM interval_overlay(first_set, second_set)
    WHERE in_first AND NOT in_second
);
