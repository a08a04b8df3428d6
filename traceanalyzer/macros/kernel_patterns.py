"""What names of kernels tell, as macros made from the patterns of `kernel_class_patterns`.

DuckDB compiles a pattern that it reads from a table again for each row, and one that is written in a query once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.text.sql_text import quoted

_PATTERNS = Path(__file__).parents[1] / "metrics" / "kernels" / "kernel_class_patterns.sql"
_ASPECTS = ("class", "precision", "tensor_core")


@cache
def pattern_macros() -> dict[str, str]:
    """Return the definition of a macro for each aspect: kernel_class_of(name) is NULL where no pattern matches."""
    return {
        f"kernel_{aspect}_of": f"CREATE OR REPLACE MACRO kernel_{aspect}_of(name) AS {case_of(aspect)}"
        for aspect in _ASPECTS
    }


def case_of(aspect: str) -> str:
    """Return the SQL expression over `name` that the first matching pattern of an aspect decides."""
    cases = (
        f"WHEN regexp_matches(name, {quoted(pattern)}) THEN {quoted(value)}"
        for of_aspect, pattern, value in _patterns()
        if of_aspect == aspect
    )
    return "\n".join(("CASE", *cases, "END"))


def pattern_sources() -> tuple[str, ...]:
    """Return the texts that the macros follow from: the patterns, and how they are made into macros."""
    return tuple(path.read_text(encoding="utf-8") for path in (_PATTERNS, Path(__file__)))


@cache
def _patterns() -> list[tuple[str, str, str]]:
    query = f"SELECT aspect, pattern, value FROM ({_PATTERNS.read_text(encoding='utf-8')}) ORDER BY position"
    with duckdb.connect() as connection:
        return connection.execute(query).fetchall()
