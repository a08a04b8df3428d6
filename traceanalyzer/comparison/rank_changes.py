"""Ranks on both sides: matched by their number where both have as many, else compared as worst, mean and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceanalyzer.comparison.aligning import Alignment
from traceanalyzer.comparison.sides import place_words
from traceanalyzer.comparison.summary import Summary


@dataclass(frozen=True)
class RankRow:
    """The mean step of one rank and device on both sides."""

    place: str
    base_ns: int
    new_ns: int


@dataclass(frozen=True)
class RankChanges:
    """All ranks of both sides; times are means over the captures of a side, a step or unit of work."""

    base_count: int  # devices
    new_count: int
    base_mean_ns: int
    new_mean_ns: int
    base_worst: str
    base_worst_ns: int
    new_worst: str
    new_worst_ns: int
    base_spread_share: float  # slowest over fastest, less 1
    new_spread_share: float
    rows: tuple[RankRow, ...]  # matched ranks, largest change first; empty where their numbers differ
    # Of another number of devices with steps: how much of the added devices' speed arrives, where each does the same
    # work a step (weak scaling) and where the work is shared out (strong scaling).
    weak_efficiency: float | None = None
    strong_efficiency: float | None = None


def compare_ranks(base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment) -> RankChanges | None:
    """Return how ranks changed; None where both sides have a single device."""
    scales = alignment.base_scales, alignment.new_scales
    by_steps = alignment.kind == "steps"
    places = [_unit_ns(side, None if by_steps else scale) for side, scale in zip((base, new), scales, strict=True)]
    if not all(places) or max(map(len, places)) < 2:
        return None
    means = [sum(steps.values()) / len(steps) for steps in places]
    worst = [max(steps, key=lambda place: (steps[place], place)) for steps in places]
    spreads = [max(steps.values()) / max(min(steps.values()), 1.0) - 1 for steps in places]
    counts = [len(steps) for steps in places]
    rows: list[RankRow] = []
    weak = strong = None
    if places[0].keys() == places[1].keys():
        rows = [RankRow(place, round(places[0][place]), round(places[1][place])) for place in places[0]]
        rows.sort(key=lambda row: (-abs(row.new_ns - row.base_ns), row.place))
    elif all(item.has_steps for side in (base, new) for item in side):
        weak = places[0][worst[0]] / places[1][worst[1]]
        strong = weak * counts[0] / counts[1]
    return RankChanges(
        counts[0],
        counts[1],
        round(means[0]),
        round(means[1]),
        worst[0],
        round(places[0][worst[0]]),
        worst[1],
        round(places[1][worst[1]]),
        spreads[0],
        spreads[1],
        tuple(rows),
        weak,
        strong,
    )


def _unit_ns(side: Sequence[Summary], scales: Sequence[Fraction] | None) -> dict[str, float]:
    """Return the mean time of each rank and device a step, or a unit of work, over the captures that have it."""
    found: dict[str, list[float]] = {}
    for at, summary in enumerate(side):
        for device in [device for device in summary.devices if device.step_count] or summary.devices:
            unit_ns = device.step_ns if scales is None else float(device.window_ns * scales[at])
            found.setdefault(place_words(device), []).append(unit_ns)
    return {place: sum(times) / len(times) for place, times in found.items()}
