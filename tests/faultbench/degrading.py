"""The same jobs recorded with less and less: a verdict may become 'skipped', never 'all is well'."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from faultbench.examining import Examined, Way, examine
from faultbench.many_ranks import MANY_RANKS
from faultbench.one_device import ONE_DEVICE
from faultbench.planted import Fault, Scenario
from faultbench.unlisted import UNLISTED
from traceanalyzer.rules.rule_file.model import CONFIDENCES

_FULL: dict[str, Any] = {"shapes": True, "stacks": True, "memory": True, "sync_events": True}


@dataclass(frozen=True)
class Loss:
    """Something that is no longer recorded."""

    name: str
    changes: Mapping[str, Any] = field(default_factory=dict)
    lost_ranks: tuple[int, ...] = ()


LOSSES: tuple[Loss, ...] = (
    Loss("shapes", {"shapes": False}),
    Loss("stacks", {"stacks": False}),
    Loss("waits on events", {"sync_events": False}),
    Loss("allocator events", {"memory": False}),
    Loss("marks of steps", {"steps_marked": False}),
    Loss("half of the ranks", lost_ranks=(1, 3)),
)
_NUMBERS = ("1", "2", "8", "10", "11", "12", "14", "16", "21", "23", "U2", "U3")
DEGRADED: tuple[Fault, ...] = tuple(
    fault for fault in (*ONE_DEVICE, *MANY_RANKS, *UNLISTED) if fault.number in _NUMBERS
)


def degrade(fault: Fault, way: Way = "tables") -> Iterator[str]:
    """Yield the verdicts that a poorer recording turns round."""
    scenario: Scenario = {**fault.scenario, **_FULL}
    full = examine(scenario, way)
    for loss in LOSSES:
        if loss.lost_ranks and len(full.job.ranks) == 1:
            continue
        poorer = examine({**scenario, **loss.changes}, way, loss.lost_ranks)
        for text in _turned(full, poorer):
            yield f"{fault.number} {fault.name} without {loss.name}: {text}"


def _turned(full: Examined, poorer: Examined) -> Iterator[str]:
    before, after = full.states(), poorer.states()
    for rule, rank, device in sorted(before.keys() & after.keys(), key=str):
        one, other = before[rule, rank, device], after[rule, rank, device]
        if rule.startswith("tq-"):
            continue
        if one == "fired" and other == "clear":
            yield f"{rule} turns clear"
        if one == "clear" and other == "fired" and _confidence(poorer, rule) != CONFIDENCES[0]:
            yield f"{rule} fires"


def _confidence(seen: Examined, rule: str) -> str | None:
    return next((found.confidence for found in seen.findings if found.rule == rule), None)
