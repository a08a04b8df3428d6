"""The rows of the bench: every planted fault with its twin, and every healthy job, each examined once a format."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from faultbench.captures import CAPTURES
from faultbench.examining import Examined, Way, examine, rules
from faultbench.healthy import HEALTHY
from faultbench.judging import Judged, contradictions, judge_fault, judge_healthy, judge_twin
from faultbench.many_ranks import MANY_RANKS
from faultbench.one_device import ONE_DEVICE
from faultbench.planted import Fault, Healthy
from faultbench.uncommon import UNCOMMON
from faultbench.unlisted import LOOK_ILL, UNLISTED

_LISTED = sorted((*ONE_DEVICE, *MANY_RANKS, *CAPTURES), key=lambda fault: int(fault.number))
FAULTS: tuple[Fault, ...] = (*_LISTED, *UNLISTED, *UNCOMMON)
HEALTHY_JOBS: tuple[Healthy, ...] = (*HEALTHY, *LOOK_ILL)
SIMULATED = "simulated"
BOTH: tuple[Way, ...] = ("kineto", "nsys")


@dataclass(frozen=True)
class Row:
    """What became of one planted fault and its twin, or of one healthy job."""

    source: str
    judged: Judged
    twin: Judged | None
    contradictions: tuple[str, ...] = ()  # rules that the formats' traces of one job judge differently


def run_fault(fault: Fault, ways: Sequence[Way] = BOTH) -> Row:
    """Return what became of a fault: judged in the first format, compared with the others."""
    known = frozenset(rule.id for rule in rules())
    if fault.only_nsys:
        ways = ("nsys",)
    seen, apart = _examined(fault, ways)
    twin = None
    if fault.twin is not None:
        near, near_apart = _examined(replace(fault, scenario=fault.twin, lost_ranks=()), ways)
        twin = judge_twin(fault, near)
        apart += tuple(f"twin: {text}" for text in near_apart)
    return Row(SIMULATED, judge_fault(fault, seen, known), twin, apart)


def run_healthy(case: Healthy, ways: Sequence[Way] = BOTH) -> Row:
    """Return the findings about a healthy job."""
    seen, apart = _examined(Fault(case.number, case.name, case.scenario, None, ()), ways)
    return Row(SIMULATED, judge_healthy(case, seen, frozenset(rule.id for rule in rules())), None, apart)


def _examined(fault: Fault, ways: Sequence[Way]) -> tuple[Examined, tuple[str, ...]]:
    seen = [examine(fault.scenario, way, fault.lost_ranks) for way in ways]
    apart = (text for other in seen[1:] for text in contradictions(seen[0], other))
    return seen[0], tuple(apart)
