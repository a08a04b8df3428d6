"""Macros that the SQL of metrics, rules and users calls: one file each, and those made from the patterns of kernels."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from traceanalyzer.metrics import in_reading_order
from traceanalyzer.text.visible import quoted

_CALLED = re.compile(r"(\w+)\s*\(")


@cache
def macro_files() -> dict[str, str]:
    """Return the definition of every macro that has a file by name, each after those that it calls."""
    files = sorted(Path(__file__).parent.glob("*.sql"))
    texts = {file.stem: file.read_text(encoding="utf-8") for file in files}
    calls = {name: set(_CALLED.findall(text)) & texts.keys() - {name} for name, text in texts.items()}
    return {name: texts[name] for name in in_reading_order(calls)}


_PATTERNS = Path(__file__).parents[1] / "metrics" / "kernels" / "kernel_class_patterns.sql"
_ROW = re.compile(r"^ *\('(\w+)', (\d+), '((?:[^']|'')*)', '((?:[^']|'')*)',", re.MULTILINE)
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
    """Return the aspect, pattern and value of each row of the metric, in their order: asking DuckDB takes 30 ms."""
    rows = [tuple(text.replace("''", "'") for text in row) for row in _ROW.findall(_PATTERNS.read_text("utf-8"))]
    return [(aspect, pattern, value) for aspect, _, pattern, value in sorted(rows, key=lambda row: int(row[1]))]
