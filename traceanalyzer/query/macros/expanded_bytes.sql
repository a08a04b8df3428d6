-- What the shape of an operator's input, counted from 0, has more bytes than memory holds, as a dimension that was
-- expanded (stride 0) is stored once; NULL where shape or type are unknown.
CREATE OR REPLACE MACRO expanded_bytes(dims, types, strides, place) AS
    element_bytes(types[place + 1]) * (
        element_count(tensor_shape(dims, place)) - element_count([
            if(coalesce(tensor_shape(strides, place)[axis], 1) = 0, 1, tensor_shape(dims, place)[axis])
            FOR axis IN range(1, len(tensor_shape(dims, place)) + 1)
        ])
    );
