"""How a rule came to its verdict on a run, on a terminal: each condition with the values it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TextIO

from traceanalyzer.report.page import Page
from traceanalyzer.rules.explaining import Explanation, Seen

_STYLES = {"fired": "bold red", "clear": "bold green", "abstained": "bold yellow"}
_MARKS = {True: ("yes  ", "green"), False: ("no   ", "red"), None: ("?    ", "yellow")}


def write(explanations: Sequence[Explanation], stream: TextIO) -> None:
    """Write one block for every place that the rule is about."""
    page = Page(stream)
    for number, item in enumerate(explanations):
        if number:
            page.blank()
        _write_one(page, item)


def _write_one(page: Page, item: Explanation) -> None:
    verdict = item.verdict
    place = ", ".join(
        f"{name} {value}"
        for name, value in (("trace", verdict.place.trace), ("device", verdict.place.device))
        if value is not None
    )
    page.flow([(item.rule.id, "bold"), f"  {place or 'the run'}: ", (verdict.state, _STYLES[verdict.state])])
    page.paragraph(_why(item), indent=2)
    for name, there, detail in item.requirements:
        mark, style = _MARKS[there]
        page.paragraph(f"{name}{f': {detail}' if detail else ''}", label=(f"  requires    {mark}", style))
    _write_group(page, "abstains if  ", item.abstains)
    _write_group(page, "fires if    ", item.when)
    _write_group(page, "lowered if  ", item.lowers)
    if verdict.state == "fired":
        _write_group(page, "fix if      ", item.fixes)
    if verdict.row:
        page.line(("  the row", "cyan"))
        for name, value in verdict.row.items():
            page.paragraph(_value(value), label=f"    {name}  ")


def _write_group(page: Page, title: str, group: Sequence[Seen]) -> None:
    for seen in group:
        mark, style = _MARKS[seen.holds]
        page.paragraph(seen.text, label=(f"  {title}{mark}", style))
        tail = f"{_values(seen.values)}{'; ' if seen.values and seen.meaning else ''}{seen.meaning}"
        if tail:
            page.paragraph(tail, indent=len(title) + 7, style="dim")


def _why(item: Explanation) -> str:
    verdict = item.verdict
    if verdict.state == "abstained":
        told = ": ".join(part for part in (verdict.reason, verdict.detail) if part)
        return f"It could not look. {told}{f'. To record it: {verdict.unlock}' if verdict.unlock else ''}"
    if verdict.state == "fired":
        return f"Every condition holds: {verdict.severity}, {verdict.confidence} confidence."
    if verdict.reason in ("too-little", "below-noise-floor", "hidden-by-other-ranks"):
        return f"Every condition holds, and yet it {verdict.detail}."
    failed = [seen for seen in item.when if not seen.holds]
    return f"{len(failed)} of {len(item.when)} conditions do not hold." if failed else "It does not hold."


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
