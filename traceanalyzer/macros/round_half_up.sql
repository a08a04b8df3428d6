-- A number of at least 0 with `places` decimals, where an exact half goes up, as in `nsys stats`. DuckDB's
-- round(number, places) rounds the binary number from version 2.0.1 on, which is a little below 694122.85 for 694122.85.
CREATE OR REPLACE MACRO round_half_up(number, places) AS round(number * 10 ** places) / 10 ** places;
