-- What there is beside host slices: phases and classes of events, and `gpu` where there is GPU work. Tables of kinds that
-- are not there need no query.
SELECT phase AS kind FROM read_parquet($other)
UNION
SELECT class FROM read_parquet($other)
UNION
(SELECT 'gpu' FROM read_parquet($gpu) LIMIT 1);
