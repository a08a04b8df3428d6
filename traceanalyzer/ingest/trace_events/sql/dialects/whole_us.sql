-- Whether all arrows begin at whole microseconds.
SELECT bool_and(start_ns % 1000 = 0) FROM read_parquet($other) WHERE phase = 's'
