"""Comparisons with HTA as a page to read."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import groupby

from hta_crosscheck import DEVIATIONS, Agreement, Comparison
from traceanalyzer.report.blocks import Heading, Paragraph, Section, Table, Text
from traceanalyzer.text.words import counted

_COLUMNS = ("number", "ours", "HTA", "unit", "")


def sections(comparisons: Sequence[Comparison]) -> list[Section]:
    """Return a table for each trace, then what the reasons mean."""
    compared = []
    for trace, of_trace in groupby(comparisons, key=lambda comparison: comparison.trace):
        rows = [
            (row.name, _number(row.ours), _number(row.theirs), row.unit.replace("us", "µs"), _remark(row))
            for row in of_trace
        ]
        compared.append(Section((Table(_COLUMNS, tuple(rows), right=frozenset({1, 2})),), Heading(trace)))
    used = {reason for comparison in comparisons for reason in comparison.reasons or ()}
    width = max(map(len, used), default=0)
    reasons = [
        Paragraph(meaning, label=Text(f"{reason:<{width}}", "label"))
        for reason, meaning in DEVIATIONS.items()
        if reason in used
    ]
    known = [Section(tuple(reasons), Heading("Known differences"))] if reasons else []
    return [*compared, *known, Section((Paragraph(_total(comparisons)),))]


def _remark(comparison: Comparison) -> str:
    if comparison.agreement == "explained":
        return ", ".join(comparison.reasons or ())
    return {"equal": "equal", "differs": "differs, reason unknown"}.get(comparison.agreement, comparison.why)


def _number(value: float | None) -> str:
    if value is None:
        return "–"
    return f"{value:,.3f}".rstrip("0").rstrip(".")


def _total(comparisons: Sequence[Comparison]) -> str:
    counts = Counter(comparison.agreement for comparison in comparisons)
    words: dict[Agreement, str] = {
        "equal": "equal",
        "explained": "different for a known reason",
        "differs": "different, reason unknown",
        "missing": "without a number from HTA",
    }
    kinds = ", ".join(f"{counts[agreement]} {words[agreement]}" for agreement in words if counts[agreement])
    return f"{counted(len(comparisons), 'number')}: {kinds}"
