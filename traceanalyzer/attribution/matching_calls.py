"""The communication kernels of a run, and their matching over ranks by order alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.buckets import Ints

# Ranks may have begun to record this many collectives after each other.
MOST_SHIFT = 64
# Two ranks' collectives are not the same if more than this share of them differ in kind or size.
MOST_MISMATCH_SHARE = 0.05
# Distances between clocks that differ by less are equal.
CLOCK_ERROR_NS = 5_000
# Of so many distances and more, one in so many may be far from the others.
LEAST_TRIMMED = 4
TRIMMED_PART = 10

Place = tuple[int, int]  # trace_id, device
Direction = tuple[int, int]  # rank that sends, rank that receives
Signature = tuple[str, str | None, int | None, int | None]  # what it is, element type, elements in and out


@dataclass(frozen=True)
class Call:
    """One rank's part in a collective or a message."""

    place: Place
    op_id: int
    start: int
    dur: int
    signature: Signature
    sequence: int | None
    sends: bool = False  # an end of messages, and no collective
    directions: tuple[Direction, ...] = ()  # of these messages; empty: not known


def in_order(calls: Mapping[Place, list[Call]]) -> list[list[Call]]:
    """Match the n-th calls of ranks, after shifting each rank to fit the rank with the most calls."""
    places = sorted(calls, key=lambda place: (-len(calls[place]), place))
    first = calls[places[0]]
    by_position: dict[int, list[Call]] = {at: [call] for at, call in enumerate(first)}
    alone: list[list[Call]] = []
    for place in places[1:]:
        own = calls[place]
        shift = _best_shift(first, own)
        for at, call in enumerate(own):
            if shift is not None and at + shift in by_position:
                by_position[at + shift].append(call)
            else:
                alone.append([call])
    return [by_position[at] for at in sorted(by_position)] + alone


def _best_shift(first: Sequence[Call], own: Sequence[Call]) -> int | None:
    """Return by how many calls the first rank is ahead; None: no shift fits.

    Among the shifts at which kinds and sizes fit, the best is the one with the most constant distance between the ends
    of matched calls. One call that ends late, as while a profiler starts, is no reason for another shift. Among shifts
    that are as constant, it is the one with the least time for transfers: the rank that comes last does not wait.
    """
    shorter = min(len(first), len(own))
    ends, durs = (_ends(first), _ends(own)), (_durs(first), _durs(own))
    fits: list[tuple[float, int, int, int]] = []
    for shift in range(-MOST_SHIFT, MOST_SHIFT + 1):
        low, high = max(0, shift), min(len(first), len(own) + shift)
        # A single pair always has a constant distance.
        if high - low < max(min(2, shorter), shorter / 2):
            continue
        pairs = zip(first[low:high], own[low - shift : high - shift], strict=True)
        mismatch = sum(a.signature != b.signature for a, b in pairs) / (high - low)
        if mismatch > MOST_MISMATCH_SHARE:
            continue
        apart = ends[1][low - shift : high - shift] - ends[0][low:high]
        spread = _usual_distance(apart) // CLOCK_ERROR_NS
        longer = np.maximum(durs[0][low:high], durs[1][low - shift : high - shift])
        # Of a call without a partner, all of its time could be its transfer.
        transfer = int(durs[0].sum() + durs[1].sum() - longer.sum())
        fits.append((mismatch, spread, transfer, shift))
    return min(fits, key=lambda fit: (*fit[:3], abs(fit[3])))[3] if fits else None


def _usual_distance(apart: Ints) -> int:
    """Return by how much distances differ from their median on average, without those few that differ most."""
    distances = np.sort(np.abs(apart - np.median(apart)))
    if len(distances) >= LEAST_TRIMMED:
        distances = distances[: -max(1, len(distances) // TRIMMED_PART)]
    return int(distances.mean())


def _durs(calls: Sequence[Call]) -> Ints:
    return np.asarray([call.dur for call in calls], dtype=np.int64)


def _ends(calls: Sequence[Call]) -> Ints:
    return np.asarray([call.start + call.dur for call in calls], dtype=np.int64)
