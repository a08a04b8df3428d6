"""Markdown as text: tables, code and cells that cannot break them."""

from __future__ import annotations

import re
from collections.abc import Sequence

LONGEST_CELL = 64
# Columns, functions with their argument, options, families of buckets: `dur_ns`, `__next__`, `num_workers=0`, `host.*`.
_NAME = re.compile(r"--[a-z][\w-]+(?:=[\w,]+)?|[a-z]+\.\*|[\w.]*_[\w.]*\w(?:\(\))?(?:=\w+)?")


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a table; a bar or a line break inside a cell does not end it."""
    lines = [head, ["---"] * len(head), *rows]
    return "".join("| " + " | ".join(map(_cell, line)) + " |\n" for line in lines)


def code_block(text: str, language: str = "") -> str:
    """Return text as a block that is shown as it is."""
    return f"```{language}\n{text.rstrip()}\n```\n"


def literal(value: object) -> str:
    """Return a value of a query's answer, text as code and cut where it is long; NULL where it is unknown."""
    if value is None:
        return "NULL"
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return f"{value:.6g}" if isinstance(value, float) else str(value)
    text = " ".join(str(value).split())
    return f"`{text if len(text) <= LONGEST_CELL else text[: LONGEST_CELL - 1] + '…'}`" if text else ""


def paragraphs(text: str) -> str:
    """Return prose as paragraphs; one with aligned columns keeps them."""
    parts = [part.strip("\n") for part in text.strip().split("\n\n")]
    return "\n".join(code_block(part, "text") if "   " in part else f"{prose(part)}\n" for part in parts)


def prose(text: str) -> str:
    """Return text of our own with its names as code: outside code their underscores and stars would be emphasis."""
    words = " ".join(text.split())
    if "`" in words:
        return words
    return _NAME.sub(r"`\g<0>`", words).replace("<", "&lt;")


def _cell(text: str) -> str:
    return text.replace("|", "\\|").replace("\n", " ")
