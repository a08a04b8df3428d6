-- The types of an operator's inputs as PyTorch writes them on Linux; a PyTorch for Windows names kinds of types, too.
CREATE OR REPLACE MACRO type_names(written) AS
    TRY_CAST(replace(replace(written, 'struct c10::', 'c10::'), '__int64', 'long') AS VARCHAR[]);
