"""Ranks on both sides: matched where both have the same ranks, else compared as worst, mean and spread.

A device is matched by its role, the n-th device of its rank: its number depends on which GPUs the job was given.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction

from traceanalyzer.comparison.aligning import Alignment
from traceanalyzer.comparison.sides import place_words
from traceanalyzer.comparison.summary import DeviceTimes, Summary

Role = tuple[int, int]  # rank, and which of its devices


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


def compare_ranks(
    base: Sequence[Summary], new: Sequence[Summary], alignment: Alignment, *, is_comparable: bool = True
) -> RankChanges | None:
    """Return how ranks changed; None where both sides have a single device.

    Efficiency is that of one program on more devices: sides that are not comparable have none.
    """
    scales = alignment.base_scales, alignment.new_scales
    by_steps = alignment.kind == "steps"
    units = [_unit_ns(side, None if by_steps else scale) for side, scale in zip((base, new), scales, strict=True)]
    if not all(units) or max(map(len, units)) < 2:
        return None
    means = [sum(unit_ns.values()) / len(unit_ns) for unit_ns in units]
    worst = [max(unit_ns, key=lambda role: (unit_ns[role], role)) for unit_ns in units]
    spreads = [max(unit_ns.values()) / max(min(unit_ns.values()), 1.0) - 1 for unit_ns in units]
    counts = [len(unit_ns) for unit_ns in units]
    words = [_words_by_role(side) for side in (base, new)]
    rows: list[RankRow] = []
    weak = strong = None
    if units[0].keys() == units[1].keys():
        rows = [RankRow(words[1][role], round(units[0][role]), round(units[1][role])) for role in units[0]]
        rows.sort(key=lambda row: (-abs(row.new_ns - row.base_ns), row.place))
    elif is_comparable and counts[0] != counts[1] and all(item.has_steps for side in (base, new) for item in side):
        weak = units[0][worst[0]] / units[1][worst[1]]
        strong = weak * counts[0] / counts[1]
    return RankChanges(
        counts[0],
        counts[1],
        round(means[0]),
        round(means[1]),
        words[0][worst[0]],
        round(units[0][worst[0]]),
        words[1][worst[1]],
        round(units[1][worst[1]]),
        spreads[0],
        spreads[1],
        tuple(rows),
        weak,
        strong,
    )


def _by_role(summary: Summary) -> dict[Role, DeviceTimes]:
    """Return the devices with steps, else all, by rank and by which of the rank's devices each is."""
    devices = [device for device in summary.devices if device.step_count] or summary.devices
    ranks = {device.rank for device in devices}
    roles: dict[Role, DeviceTimes] = {}
    seen: dict[int, int] = defaultdict(int)
    for device in devices:
        # A single rank has the same role whether or not its number was recorded.
        rank = 0 if len(ranks) == 1 or device.rank is None else device.rank
        roles[rank, seen[rank]] = device
        seen[rank] += 1
    return roles


def _words_by_role(side: Sequence[Summary]) -> dict[Role, str]:
    return {role: place_words(device) for summary in reversed(side) for role, device in _by_role(summary).items()}


def _unit_ns(side: Sequence[Summary], scales: Sequence[Fraction] | None) -> dict[Role, float]:
    """Return the mean time of each device a step, or a unit of work, over the captures that have it."""
    found: dict[Role, list[float]] = defaultdict(list)
    for at, summary in enumerate(side):
        for role, device in _by_role(summary).items():
            found[role].append(device.step_ns if scales is None else float(device.window_ns * scales[at]))
    return {role: sum(times) / len(times) for role, times in found.items()}
