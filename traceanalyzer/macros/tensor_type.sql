-- A type of `Input type` as PyTorch writes it today; older profilers, and tools that write traces, shorten these.
CREATE OR REPLACE MACRO tensor_type(written) AS
    CASE lower(replace(written, 'c10::', ''))
        WHEN 'bfloat16' THEN 'c10::BFloat16'
        WHEN 'half' THEN 'c10::Half'
        WHEN 'float' THEN 'float'
        ELSE written
    END;
