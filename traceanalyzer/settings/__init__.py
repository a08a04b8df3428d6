"""What a project decided in `traceanalyzer.toml`: `settings` reads it, `hardware` is what it says of devices."""
