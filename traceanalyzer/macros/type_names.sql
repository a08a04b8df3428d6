-- The types of an operator's inputs as PyTorch writes them today on Linux: its builds for Windows name kinds of types, too,
-- and older profilers, and tools that write traces, shorten names.
CREATE OR REPLACE MACRO type_names(written) AS
    [
        CASE lower(replace(name, 'c10::', ''))
            WHEN 'bfloat16' THEN 'c10::BFloat16'
            WHEN 'half' THEN 'c10::Half'
            WHEN 'float' THEN 'float'
            ELSE name
        END
        FOR name IN TRY_CAST(replace(replace(written, 'struct c10::', 'c10::'), '__int64', 'long') AS VARCHAR[])
    ];
