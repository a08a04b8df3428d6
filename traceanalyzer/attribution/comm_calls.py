"""The communication kernels of a run, and which of two ranks' belong together by their order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.buckets import Ints

# Ranks may have begun to record this many collectives apart.
MOST_SHIFT = 64
# Where more than this share of two ranks' collectives differ in kind or size, they are not the same ones.
MOST_MISMATCH_SHARE = 0.05

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
    sends: bool = False  # it is an end of messages, and no collective
    directions: tuple[Direction, ...] = ()  # of these messages; empty where that is not known


def in_order(calls: Mapping[Place, list[Call]]) -> list[list[Call]]:
    """Return the n-th calls together, after each rank is shifted to where its calls fit those of the fullest one."""
    places = sorted(calls, key=lambda place: (-len(calls[place]), place))
    first = calls[places[0]]
    found: dict[int, list[Call]] = {at: [call] for at, call in enumerate(first)}
    alone: list[list[Call]] = []
    for place in places[1:]:
        own = calls[place]
        shift = _best_shift(first, own)
        for at, call in enumerate(own):
            if shift is not None and at + shift in found:
                found[at + shift].append(call)
            else:
                alone.append([call])
    return [found[at] for at in sorted(found)] + alone


def _best_shift(first: Sequence[Call], own: Sequence[Call]) -> int | None:
    """Return by how many calls the first rank is ahead; None where the two never did the same.

    Of shifts at which kinds and sizes fit, calls that belong together end the most nearly at one distance.
    """
    best: tuple[float, float, int] | None = None
    ends = _ends(first), _ends(own)
    for shift in range(-MOST_SHIFT, MOST_SHIFT + 1):
        low, high = max(0, shift), min(len(first), len(own) + shift)
        shorter = min(len(first), len(own))
        # One pair alone always ends at one distance.
        if high - low < max(min(2, shorter), shorter / 2):
            continue
        pairs = zip(first[low:high], own[low - shift : high - shift], strict=True)
        mismatch = sum(a.signature != b.signature for a, b in pairs) / (high - low)
        apart = ends[1][low - shift : high - shift] - ends[0][low:high]
        spread = float(np.abs(apart - np.median(apart)).mean())
        rank = (mismatch, spread, abs(shift))
        if mismatch <= MOST_MISMATCH_SHARE and (best is None or rank < (*best[:2], abs(best[2]))):
            best = (mismatch, spread, shift)
    return None if best is None else best[2]


def _ends(calls: Sequence[Call]) -> Ints:
    return np.asarray([call.start + call.dur for call in calls], dtype=np.int64)
