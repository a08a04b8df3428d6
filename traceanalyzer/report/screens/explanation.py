"""How a rule reached its verdict on a run: each condition with the values that it saw."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from traceanalyzer.report.blocks import Block, Heading, Paragraph, Section, Text
from traceanalyzer.rules.diagnosis.explaining import Explanation, Seen
from traceanalyzer.text.words import confidence_words

_ROLES = {"fired": "bad", "clear": "good", "abstained": "caution"}
_MARKS = {True: ("yes", "good"), False: ("no ", "bad"), None: ("?  ", "caution")}


def sections(explanations: Sequence[Explanation]) -> list[Section]:
    """Return a section for every place that the rule is about."""
    return [_section(explanation) for explanation in explanations]


def _section(explanation: Explanation) -> Section:
    verdict = explanation.verdict
    place = ", ".join(
        f"{name} {value}"
        for name, value in (("trace", verdict.place.trace), ("device", verdict.place.device))
        if value is not None
    )
    blocks: list[Block] = [Paragraph(_why(explanation))]
    for name, there, detail in explanation.requirements:
        blocks.append(Paragraph(f"{name}{f': {detail}' if detail else ''}", label=_label("requires  ", there)))
    blocks += _conditions("abstains if", explanation.abstains)
    blocks += _conditions("fires if  ", explanation.when)
    blocks += _conditions("lowered if", explanation.lowers)
    if verdict.state == "fired":
        blocks += _conditions("fix if    ", explanation.fixes)
    if verdict.row:
        values = (Paragraph(_value(value), label=Text(name)) for name, value in verdict.row.items())
        blocks.append(Paragraph("", label=Text("the row", "label"), blocks=tuple(values)))
    notes = (Text(place or "the run", "dim"), Text(verdict.state, _ROLES[verdict.state]))
    return Section(tuple(blocks), Heading(explanation.rule.id, notes))


def _label(words: str, holds: bool | None) -> Text:
    mark, role = _MARKS[holds]
    return Text(f"{words:<11} {mark}", role)


def _conditions(title: str, group: Sequence[Seen]) -> list[Block]:
    blocks: list[Block] = []
    for seen in group:
        tail = f"{_values(seen.values)}{'; ' if seen.values and seen.meaning else ''}{seen.meaning}"
        inner = (Paragraph(tail, role="dim"),) if tail else ()
        blocks.append(Paragraph(seen.text, label=_label(title, seen.holds), blocks=inner))
    return blocks


def _why(explanation: Explanation) -> str:
    verdict = explanation.verdict
    if verdict.state == "abstained":
        why = ": ".join(part for part in (verdict.reason, verdict.detail) if part)
        return f"Skipped. {why}{f'. To record it: {verdict.unlock}' if verdict.unlock else ''}"
    if verdict.state == "fired":
        sure = confidence_words(verdict.confidence.level, verdict.confidence.because)
        return f"Every condition holds: {verdict.severity}, {sure}."
    if verdict.reason in ("too-little", "below-noise-floor", "hidden-by-other-ranks", "hidden-by-other-devices"):
        return f"Every condition holds, but it {verdict.detail}."
    failed = [seen for seen in explanation.when if not seen.holds]
    return f"{len(failed)} of {len(explanation.when)} conditions do not hold." if failed else "It does not hold."


def _values(values: Mapping[str, Any]) -> str:
    return ", ".join(f"{name} = {_value(value)}" for name, value in values.items())


def _value(value: Any) -> str:
    if value is None:
        return "unknown"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
