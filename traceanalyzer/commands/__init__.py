"""One module a subcommand. Modules import what is heavy (DuckDB, Arrow, rich) only when a command runs."""
