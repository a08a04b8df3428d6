-- The size of one element of a number of c10::ScalarType, as `Concrete Inputs` has a type that was asked for; NULL for what
-- is none.
CREATE OR REPLACE MACRO scalar_type_bytes(code) AS
    CASE
        WHEN code IN ('0', '1', '11', '23', '24', '25', '26') THEN 1
        WHEN code IN ('2', '5', '15') THEN 2
        WHEN code IN ('3', '6', '8') THEN 4
        WHEN code IN ('4', '7', '9') THEN 8
        WHEN code = '10' THEN 16
    END;
