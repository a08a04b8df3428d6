-- A kernel's name without what demanglers write in different ways: NVIDIA's has k<(int)4, (bool)1>(T1 *) for
-- void k<4, true>(float*) of others, and void f(int)::[lambda(const T *) (instance 1)] for f(int)::{lambda(T const*)#1}.
-- Template arguments stay, and so do parameters of lambdas; other parameters go, and return types: the arguments decide them.
CREATE OR REPLACE MACRO kernel_identity(name) AS
    regexp_replace(regexp_replace(regexp_replace(regexp_replace(
        without_nested(
            regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(regexp_replace(
                name,
                '\(anonymous namespace\)|<unnamed>', '{unnamed}', 'g'),
                '\(bool\)1\b', 'true', 'g'),
                '\(bool\)0\b', 'false', 'g'),
                '\bconst\b', '', 'g'),
                '\s*\(instance (\d+)\)\]', '#\1}', 'g'),
                '[\[{]lambda\(([^()]*)\)', '{lambda[\1]', 'g'),
            '\([^()]*\)'
        ),
        '(^|[<,])\s*void\s+([\w:{])', '\1\2', 'g'),
        '\[clone .*$', ''),
        '\s+', '', 'g'),
        '([<,]-?\d+)(?:ull|ul|ll|u|l)\b', '\1', 'g');
