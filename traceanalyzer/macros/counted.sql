-- A rounded number with the singular or plural of a noun, such as '1 copy' or '3 copies'; NULL for NULL.
CREATE OR REPLACE MACRO counted(amount, one, many) AS
    printf('%,.0f ', CAST(amount AS DOUBLE)) || CASE printf('%.0f', CAST(amount AS DOUBLE)) WHEN '1' THEN one ELSE many END
