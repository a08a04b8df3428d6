-- Newer exporters keep the texts of PyTorch's ranges among the strings, one per call. Slices have their names by now, and
-- the strings still needed are other texts, or few.
CREATE OR REPLACE TABLE strings AS
FROM strings
WHERE NOT contains(value, ', op_id = ')
    OR id IN (SELECT textId FROM nvtx_other UNION ALL SELECT textId FROM nvtx_crossing);
