"""How sure a verdict is: a level, and in half a line what limits it or what it rests on."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from msgspec import Struct

from traceanalyzer.rules.rule_file.model import CONFIDENCES, QUALITY, Rule

# Below these the window says less than the rule claims: a missing launch may hide a host cause, and a spread cannot be
# estimated from a few steps. What few steps show did happen, so they cost one level only.
SURE_LINK_SHARE = 0.97
SURE_STEPS = 5
SURE_RESOLVED_SHARE = 0.9
FAIR_RESOLVED_SHARE = 0.7

# Why the rule itself promises no more, whatever the trace.
_OF_RULE = {"medium": "estimated", "low": "indirect signs"}


class Confidence(Struct, frozen=True):
    """A level (high, medium or low) and why it is no higher; of a high one what it rests on."""

    level: str
    because: str


MEASURED = Confidence("high", "measured")


def least(items: Iterable[Confidence]) -> Confidence:
    """Return the lowest of some confidences, of equal ones the first."""
    return min(items, key=lambda item: CONFIDENCES.index(item.level))


def confidence_of(rule: Rule, row: Mapping[str, Any], lowered: Iterable[int]) -> Confidence:
    """Return how sure a rule is of a row that it selected; `lowered` are the positions of its conditions that hold."""
    items = [Confidence(rule.lower[index].to, rule.lower[index].because) for index in lowered]
    items.append(Confidence(rule.confidence, _OF_RULE.get(rule.confidence) or _measured(row)))
    if rule.kind != QUALITY:
        items += _of_window(row)
    return least(items)


def _measured(row: Mapping[str, Any]) -> str:
    steps = row.get("step_count")
    return f"measured in {steps} steps" if steps else MEASURED.because


def _of_window(row: Mapping[str, Any]) -> list[Confidence]:
    items = []
    link_share, steps, resolved = (row.get(name) for name in ("launch_link_share", "step_count", "resolved_share"))
    if resolved is not None and resolved < SURE_RESOLVED_SHARE:
        level = "medium" if resolved >= FAIR_RESOLVED_SHARE else "low"
        items.append(Confidence(level, f"the cause of {_percent(1 - resolved)} of its time is inferred"))
    if link_share is not None and link_share < SURE_LINK_SHARE:
        items.append(Confidence("medium", f"only {_percent(link_share)} of the launches were recorded"))
    if steps is not None and steps < SURE_STEPS:
        items.append(Confidence("medium", {0: "no steps to compare", 1: "one step"}.get(steps, f"{steps} steps")))
    return items


def _percent(share: float) -> str:
    return f"{100 * share:.0f} %"
