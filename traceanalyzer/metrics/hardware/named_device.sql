-- One row per device model that the user names, for devices without a name in the trace; else the metric is empty.
--
-- It comes from --device, else from `[devices]` in traceanalyzer.toml (docs/settings.md).
--
-- columns:
--   name     VARCHAR  product name
--   sm_count INTEGER  SMs or compute units; NULL: not given
SELECT NULL::VARCHAR AS name, NULL::INTEGER AS sm_count
WHERE false
