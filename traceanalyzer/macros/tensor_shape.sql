-- The shape of an operator's input, counted from 0, out of its `Input Dims` as JSON texts; NULL where it is no shape or
-- larger than any memory, NULL for each part of a list of shapes. What is no tensor has the shape [], as a tensor of one element has.
CREATE OR REPLACE MACRO tensor_shape(dims, position) AS
    CASE
        WHEN coalesce(list_product(TRY_CAST(dims[position + 1] AS DOUBLE[])), 1) BETWEEN 0 AND 1e15
         AND coalesce(list_max(TRY_CAST(dims[position + 1] AS DOUBLE[])), 0) < 1e15
        THEN TRY_CAST(dims[position + 1] AS BIGINT[])
    END;
