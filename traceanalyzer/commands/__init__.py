"""One module a subcommand. Modules import what is heavy (DuckDB, Arrow, rich) only when a command runs."""

PROGRAM = "traceanalyzer"
# A shell's completion script sets it: the program then prints completions instead of running a command.
COMPLETION_VARIABLE = "_TRACEANALYZER_COMPLETE"
