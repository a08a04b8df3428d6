"""What a gate says: a line for each check."""

from __future__ import annotations

from traceanalyzer.comparison.gate import Check, GateResult
from traceanalyzer.report.blocks import Heading, Paragraph, Section, Table, Text
from traceanalyzer.report.diff_blocks.words import change
from traceanalyzer.report.words import duration, percent


def gate_sections(gate: GateResult | None) -> list[Section]:
    """Return a table of the checks; nothing where no gate was asked for."""
    if gate is None or not gate.checks:
        return []
    rows = tuple((check.state, check.name, measured_words(check), limit_words(check)) for check in gate.checks)
    notes = [Paragraph(words, label=Text(check.name, "dim")) for check in gate.checks if (words := note(check))]
    return [Section((Table(("state", "check", "measured", "limit"), rows), *notes), Heading("Gate"))]


def measured_words(check: Check) -> str:
    """Say what was measured."""
    if check.measured is None:
        return "–"
    words = _words(check.unit, check.measured)
    return f"{words} (at least {change(check.low)})" if check.low is not None and check.unit == "change" else words


def limit_words(check: Check) -> str:
    """Say the limit."""
    if check.unit == "verdict":
        return f"not slower by {percent(float(check.limit))} and more"
    if check.unit == "findings":
        return f"none of severity {check.limit} or worse"
    side = "at least" if check.name.endswith(".min") else "at most"
    return f"{side} {_words(check.unit, check.limit)}"


def note(check: Check) -> str:
    """Say why, and which exception holds."""
    exception = f"exception: {check.exception}" if check.exception else ""
    return "; ".join(words for words in (check.because, exception) if words)


def _words(unit: str, value: float | str) -> str:
    if isinstance(value, str):
        return value
    if unit == "ms":
        return duration(value * 1e6)
    if unit == "share":
        return percent(value)
    if unit == "change":
        return change(value)
    if unit == "launches":
        return f"{value:+g} launches a step"
    return f"{value:g}"
