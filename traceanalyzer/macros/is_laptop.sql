-- Whether a device's name, or a pattern for names, is that of a laptop's GPU, which is a smaller chip than the desktop's of
-- the same model.
CREATE OR REPLACE MACRO is_laptop(name) AS regexp_matches(name, 'Laptop|Max-Q');
