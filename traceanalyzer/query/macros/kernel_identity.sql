-- A kernel's name without what demanglers write in different ways: NVIDIA's has k<(int)4, (bool)1>(T1 *) for
-- void k<4, true>(float*) of others. Template arguments stay, parameters and return type go: the arguments decide them.
CREATE OR REPLACE MACRO kernel_identity(name) AS
    regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        without_nested(
            regexp_replace(regexp_replace(regexp_replace(
                name,
                '\(anonymous namespace\)|<unnamed>', '{unnamed}', 'g'),
                '\(bool\)1\b', 'true', 'g'),
                '\(bool\)0\b', 'false', 'g'),
            '\([^()]*\)'
        ),
        '^\s*void\s+', ''),
        '\[clone .*$', ''),
        '\s+', '', 'g'),
        '([<,]-?\d+)(?:ull|ul|ll|u|l)\b', '\1', 'g');
