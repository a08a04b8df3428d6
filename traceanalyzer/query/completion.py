"""What the `sql` prompt completes: tables where one is wanted, and the columns of those that a statement names."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

# The letters at which a shell's word ends.
DELIMITERS = " \t\n,;()=<>+-*/'\""
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "USING", "DESC", "NULLS LAST"),
    *("count", "sum", "min", "max", "avg", "CASE WHEN", "THEN", "ELSE", "END", "AND", "NOT", "IS NULL", "DISTINCT"),
)
_WORD = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_WANTS_TABLE = re.compile(r"(?:\b(?:FROM|JOIN|DESCRIBE|SUMMARIZE|\.columns)|\bFROM\s+[\w\s,]*,)\s*$", re.IGNORECASE)


def completions(before: str, word: str, tables: Mapping[str, Sequence[str]]) -> list[str]:
    """Return what a word may become, by name; `before` is the statement up to it, `tables` has columns by table."""
    owner, dot, start = word.rpartition(".")
    if dot:
        return [f"{owner}.{name}" for name in sorted(tables.get(owner, ())) if _begins(name, start)]
    if _WANTS_TABLE.search(before):
        return sorted(name for name in tables if _begins(name, word))
    named = [name for name in _WORD.findall(before) if name in tables]
    columns = {column for name in named for column in tables[name]}
    if not named and not word:
        return []
    # Before FROM is written, any column may be meant.
    known = columns or {column for names in tables.values() for column in names}
    keywords = {name for name in KEYWORDS if _begins(name, word)} if word else set()
    return sorted({name for name in (*known, *tables) if _begins(name, word)} | keywords)


def _begins(name: str, start: str) -> bool:
    return name.lower().startswith(start.lower())
