"""What is planted: a fault, its near-miss twin, what a diagnosis must say, and the truth to measure it against."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

Scenario = Mapping[str, Any]
Removed = Collection[str] | Mapping[int, Collection[str]]  # causes, of every rank or by rank
KernelScale = Mapping[str, float] | Mapping[int, Mapping[str, float]]


@dataclass(frozen=True)
class Without:
    """How the job runs without the fault: causes that cost nothing and faster kernels, or another job instead."""

    removed: Removed = ()
    kernel_scale: KernelScale = field(default_factory=dict)
    instead: Scenario | None = None


@dataclass(frozen=True)
class Expected:
    """One finding that a diagnosis must hold."""

    rule: str
    rank: int | None = None  # the rank that it must name; None: every rank is as good
    first: bool = True  # it comes before every other finding that claims time
    severity: str | None = None
    says: str = ""  # a pattern that its message must match
    without: Without | None = None  # what the saving it promises is measured against; None: it promises none
    attached_to: str | None = None  # an explanation: the finding that carries it


@dataclass(frozen=True)
class Fault:
    """A job with something wrong in it, and one that looks like it and is healthy."""

    number: str
    name: str
    scenario: Scenario
    twin: Scenario | None
    expected: tuple[Expected, ...]
    silent: tuple[str, ...] = ()  # rules that may own next to nothing here
    abstains: tuple[str, ...] = ()  # rules that must abstain
    lost_ranks: tuple[int, ...] = ()  # ranks whose files are not there
    twin_tells: tuple[str, ...] = ()  # what is truly wrong with the twin
    twin_silent: tuple[str, ...] = ()  # rules that may not even tell little of the twin; the expected ones always
    only_nsys: bool = False  # no other profiler records what it shows in


@dataclass(frozen=True)
class Healthy:
    """A job in which nothing is wrong, however much it looks so."""

    number: str
    name: str
    scenario: Scenario
    tells: tuple[str, ...] = ()  # findings that a diagnosis must have all the same
    silent: tuple[str, ...] = ()  # rules that may not fire at all
    abstains: tuple[str, ...] = ()  # rules that may not say that all is well either
