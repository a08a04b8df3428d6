-- A number of things in words, as in '1 copy' and '3 copies': rounded, with the word for one or for many; NULL for NULL.
CREATE OR REPLACE MACRO counted(amount, one, many) AS
    printf('%,.0f ', CAST(amount AS DOUBLE)) || CASE printf('%.0f', CAST(amount AS DOUBLE)) WHEN '1' THEN one ELSE many END
