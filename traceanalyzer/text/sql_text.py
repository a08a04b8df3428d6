"""Texts of our own in SQL."""

from __future__ import annotations

from pathlib import Path


def literal(path: Path) -> str:
    """Return a path of our own store as a SQL text; views cannot have parameters."""
    return quoted(str(path))


def quoted(text: str) -> str:
    """Return a text of our own as a SQL text, for statements that take no parameters."""
    return "'" + text.replace("'", "''") + "'"
