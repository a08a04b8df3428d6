"""The table `bound` that the SQL of every rule reads: its columns, with what they mean, in one commented file."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.schema import TableSchema, load_tables


def rule_tables() -> dict[str, TableSchema]:
    """Return the tables that only the SQL of a rule can read, by name."""
    return load_tables(Path(__file__).parent)
