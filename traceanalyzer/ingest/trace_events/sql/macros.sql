-- Times are microseconds in the files and integer nanoseconds here. A double holds a time with three decimals exactly
-- below 2^43 µs, and a whole number below 2^53; texts with more digits go through a decimal.
CREATE OR REPLACE MACRO ns_of_double(us) AS
    CASE
        WHEN abs(us) < 9.0e15
        THEN CAST(floor(us) AS BIGINT) * 1000 + CAST(round((us - floor(us)) * 1000) AS BIGINT)
    END;
CREATE OR REPLACE MACRO ns_of_text(us) AS
    TRY_CAST(round(TRY_CAST(us AS DECIMAL(30, 6)) * 1000) AS BIGINT);
-- A profiler of spring 2024 wrote the nanoseconds after the point without their leading zeros.
CREATE OR REPLACE MACRO ns_of_unpadded(us) AS
    CASE
        WHEN regexp_full_match(us, '-?\d+\.\d{1,3}')
        THEN TRY_CAST(split_part(us, '.', 1) AS BIGINT) * 1000
            + CASE WHEN us LIKE '-%' THEN -1 ELSE 1 END * TRY_CAST(split_part(us, '.', 2) AS BIGINT)
        ELSE ns_of_text(us)
    END;
-- Kineto's unsigned -1 for "no stream", and ids written as texts.
CREATE OR REPLACE MACRO whole(text) AS TRY_CAST(text AS BIGINT);
