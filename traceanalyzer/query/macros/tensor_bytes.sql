-- The bytes of an operator's input, counted from 0, by its shape and type; 0 for what is no tensor, NULL where it is one of
-- unknown shape or type. Types of numbers are written Scalar, and Int, Bool or Double by profilers of 2021.
CREATE OR REPLACE MACRO tensor_bytes(dims, types, place) AS
    CASE
        WHEN dims[place + 1] = '[]'
         AND types[place + 1] IN ('', 'Scalar', 'ScalarList', 'Int', 'Bool', 'Double', 'GenericList')
        THEN 0
        ELSE CAST(element_count(tensor_shape(dims, place)) AS HUGEINT) * element_bytes(types[place + 1])
    END;
