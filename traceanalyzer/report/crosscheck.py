"""Comparisons with HTA as a page to read, or as CSV."""

from __future__ import annotations

import csv
from collections import Counter
from collections.abc import Sequence
from itertools import groupby
from typing import TextIO

from traceanalyzer.crosscheck import DEVIATIONS, Comparison, Verdict
from traceanalyzer.report.page import Page
from traceanalyzer.report.words import counted

_COLUMNS = ("number", "ours", "HTA", "unit", "")


def write(comparisons: Sequence[Comparison], stream: TextIO) -> None:
    """Write a table a trace, then what the reasons mean."""
    page = Page(stream)
    for trace, of_trace in groupby(comparisons, key=lambda comparison: comparison.trace):
        page.line((trace, "bold"))
        rows = [
            (row.name, _number(row.ours), _number(row.theirs), row.unit.replace("us", "µs"), _remark(row))
            for row in of_trace
        ]
        page.table(_COLUMNS, rows, indent=2, right=frozenset({1, 2}))
        page.blank()
    used = {reason for comparison in comparisons for reason in comparison.reasons or ()}
    width = max(map(len, used), default=0)
    for reason in DEVIATIONS:
        if reason in used:
            page.paragraph(DEVIATIONS[reason], label=(f"  {reason:<{width}}  ", "cyan"))
    if used:
        page.blank()
    page.line(_total(comparisons))


def write_csv(comparisons: Sequence[Comparison], stream: TextIO) -> None:
    """Write one line a number."""
    writer = csv.writer(stream, lineterminator="\n")
    writer.writerow(("trace", "rank", "analysis", "number", "unit", "ours", "hta", "verdict", "why"))
    for c in comparisons:
        writer.writerow((c.trace, c.rank, c.analysis, c.name, c.unit, c.ours, c.theirs, c.verdict, c.why))


def _remark(comparison: Comparison) -> str:
    if comparison.verdict == "explained":
        return ", ".join(comparison.reasons or ())
    return {"equal": "equal", "differs": "differs, reason unknown"}.get(comparison.verdict, comparison.why)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _total(comparisons: Sequence[Comparison]) -> str:
    counts = Counter(comparison.verdict for comparison in comparisons)
    words: dict[Verdict, str] = {
        "equal": "equal",
        "explained": "different for a known reason",
        "differs": "different for no known reason",
        "missing": "without a number of HTA's",
    }
    told = ", ".join(f"{counts[verdict]} {words[verdict]}" for verdict in words if counts[verdict])
    return f"{counted(len(comparisons), 'number')}: {told}"
