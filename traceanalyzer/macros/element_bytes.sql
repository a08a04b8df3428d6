-- The size of one element of a type as PyTorch writes it in `Input type`; NULL for what is no tensor or is not known.
CREATE OR REPLACE MACRO element_bytes(type_name) AS
    CASE
        WHEN type_name IN ('c10::complex<double>') THEN 16
        WHEN type_name IN ('double', 'long int', 'long', 'unsigned long', 'long unsigned int', 'long long', 'c10::complex<float>') THEN 8
        WHEN type_name IN ('float', 'int', 'unsigned int', 'c10::complex<c10::Half>', 'c10::qint32') THEN 4
        WHEN type_name IN ('c10::Half', 'c10::BFloat16', 'short', 'short int', 'unsigned short', 'short unsigned int', 'c10::bits16') THEN 2
        WHEN type_name IN ('bool', 'unsigned char', 'signed char', 'char', 'c10::qint8', 'c10::quint8') THEN 1
        -- Two numbers of 4 bits are one element.
        WHEN regexp_matches(type_name, '^c10::(Float8|Float4_e2m1fn_x2|bits(8|1x8|2x4|4x2)$|dummy_u?int1_7_t)') THEN 1
    END;
