-- The number of elements of a shape, exactly; 1 for the empty shape, NULL for NULL.
CREATE OR REPLACE MACRO element_count(shape) AS
    list_reduce(shape, lambda elements, length: elements * length, CAST(1 AS BIGINT));
