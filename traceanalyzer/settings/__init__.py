"""What a project decided in `traceanalyzer.toml`: `settings` reads it, `budgets` and `hardware` are parts of it."""
