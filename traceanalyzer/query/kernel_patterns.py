"""What names of kernels tell, as macros made from the patterns of `kernel_class_patterns`.

DuckDB compiles a pattern that it reads from a table again for each row, and one that is written in a query once.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import duckdb

from traceanalyzer.query.canonical import quoted

_PATTERNS = Path(__file__).parents[1] / "metrics" / "kernels" / "kernel_class_patterns.sql"
_ASPECTS = ("class", "precision", "tensor_core")


@cache
def pattern_macros() -> dict[str, str]:
    """Return the definition of a macro for each aspect: kernel_class_of(name) is NULL where no pattern matches."""
    return {
        f"kernel_{aspect}_of": f"CREATE OR REPLACE MACRO kernel_{aspect}_of(name) AS {case_of(aspect)}"
        for aspect in _ASPECTS
    }


@cache
def case_of(aspect: str) -> str:
    """Return the SQL expression over `name` that the first matching pattern of an aspect decides."""
    query = f"SELECT pattern, value FROM ({_PATTERNS.read_text(encoding='utf-8')}) WHERE aspect = ? ORDER BY position"
    with duckdb.connect() as connection:
        rows = connection.execute(query, [aspect]).fetchall()
    cases = "\n".join(f"WHEN regexp_matches(name, {quoted(pattern)}) THEN {quoted(value)}" for pattern, value in rows)
    return f"CASE\n{cases}\nEND"
