-- Newer exporters keep the texts of PyTorch's ranges among the strings, one a call. Slices have their names now, and
-- what is left to name is no such text, or counts few rows.
CREATE OR REPLACE TABLE strings AS
FROM strings
WHERE NOT contains(value, ', op_id = ')
    OR id IN (SELECT textId FROM nvtx_other UNION ALL SELECT textId FROM nvtx_crossing);
