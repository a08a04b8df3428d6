-- One row per model that the user names for the devices that no trace names; without one, the metric is empty.
--
-- It comes from --device, else from `[devices]` in traceanalyzer.toml (docs/settings.md).
--
-- columns:
--   name     VARCHAR  product name
--   sm_count INTEGER  SMs or compute units; NULL: not given
SELECT NULL::VARCHAR AS name, NULL::INTEGER AS sm_count
WHERE false
