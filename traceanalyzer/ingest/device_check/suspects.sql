-- Work that may run into what waits for it, with when it had to end: the start of a later operation of its lane that it
-- outlasts, or overlaps with for longer than clocks err, and the return of a call that waits for it; or that ends after
-- ten later ones. Sound recordings have none.
CREATE OR REPLACE TEMP TABLE suspects AS
SELECT *
FROM (
    SELECT
        *,
        CASE
            WHEN next_ns > start_ns AND end_ns > next_ns + $rounding_ns
                AND (end_ns > next_end_ns + $rounding_ns OR end_ns > next_ns + $overlap_ns)
            THEN next_ns
        END AS ordered_end_ns,
        -- Where work starts after the call returned, its start or its clock is wrong, and its duration proves nothing.
        CASE
            WHEN $clocks_agree AND returned_ns > start_ns AND end_ns > returned_ns + $clock_ns THEN returned_ns
        END AS waited_end_ns
    FROM bounded_work
)
WHERE ordered_end_ns IS NOT NULL OR waited_end_ns IS NOT NULL OR end_ns > tenth_end_ns + $rounding_ns;
