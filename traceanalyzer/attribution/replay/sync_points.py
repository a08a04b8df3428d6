"""Where the devices of a run meet: their collectives and messages, ordered, and the shifts that these pass on.

A reduced rank is the scan of a device without all but that: with which shift it arrives at each of its sync points.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import astuple
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import MESSAGE, NO_ROW, Flags, Ints
from traceanalyzer.attribution.replay.kernel import DevicePart, Points, starts
from traceanalyzer.attribution.replay.scan import Scan

# The sync points before one that `reduced` finds: one of the last with an even number, one with an odd one.
PREDECESSORS = 2
# The passes of a reduced rank, for each what-if.
PASSES = PREDECESSORS + 1
# More than any shift: a sync point that sets no limit.
UNLIMITED = 1 << 60
# The shifts of marked sync points differ by this, which is more than any slack (37 minutes), so that the shift at a
# later sync point says which of them it comes from.
_MARK = 1 << 41

Numbers = NDArray[np.int32]  # of calls, sync points or devices


class ReducedCalls(Struct, frozen=True):
    """The shift with which a device arrives at each of its sync points (row), in several what-ifs (last axis).

    It is the least of `limit_ns` and, for each sync point `before` that matters (middle axis), that sync point's shift
    plus `slack_ns`. `before` is a row; NO_ROW: none. The device's operation there gets shorter by `shorter_ns`.
    """

    limit_ns: Ints
    before: Numbers
    slack_ns: Ints
    shorter_ns: Ints

    @property
    def arrays(self) -> tuple[NDArray[Any], ...]:
        """All arrays, in the order of the fields."""
        return self.limit_ns, self.before, self.slack_ns, self.shorter_ns


class Arrived(NamedTuple):
    """The shifts with which a device arrives at its sync points (row), and which sync points they come from (NO_ROW:
    none).
    """

    shift_ns: Ints
    source: Numbers


def reduced(part: DevicePart) -> ReducedCalls:
    """Return when a device arrives at its sync points in each what-if.

    One pass without any limit, and one for each class of sync points with those marked, all of them at once.
    """
    row = np.arange(len(part.positions))
    left = np.full((len(row), PASSES, len(part.changes)), UNLIMITED)
    left[row, row % PREDECESSORS] = -_MARK * (row // PREDECESSORS + 1)[:, None]
    shifts = starts(part, left.reshape(len(row), -1)).reshape(left.shape)
    shorter = np.stack([one.shorter_ns[part.positions] for one in part.changes], axis=-1)
    limit, marks = shifts[:, PREDECESSORS], shifts[:, :PREDECESSORS]
    is_marked = marks < 0  # Only a marked sync point makes a shift less than 0.
    number = -(marks // _MARK)
    row_of = (number - 1) * PREDECESSORS + np.arange(PREDECESSORS)[None, :, None]
    slack = marks + number * _MARK
    return ReducedCalls(
        limit, np.where(is_marked, row_of, NO_ROW).astype(np.int32), np.where(is_marked, slack, 0), shorter
    )


def arrivals(part: DevicePart, shifts: Ints) -> Arrived:
    """Return how a device arrives where it leaves its sync points with these shifts: a column for each what-if."""
    # All times are shifted to make room for the number of the sync point that a shift comes from.
    bits = len(part.positions).bit_length()
    found = starts(part, (shifts << bits) + np.arange(1, len(shifts) + 1)[:, None], bits)
    return Arrived(found >> bits, ((found & ((1 << bits) - 1)) - 1).astype(np.int32))


class RankCalls(Struct, frozen=True):
    """The collectives and messages of one device that all their members have matched, in the order of its scan."""

    position: Ints  # in the scan
    match: Ints
    wait_ns: Ints  # for the last member
    dur_ns: Ints
    end_ns: Ints
    is_message: Flags

    @classmethod
    def of_scan(cls, scan: Scan) -> Self:
        at = np.flatnonzero(scan.match != NO_ROW)
        is_message = scan.cause_of_op.where(lambda name: name == MESSAGE)
        return cls(at, scan.match[at], scan.wait[at], scan.dur[at], scan.end[at], is_message[at])

    def taken(self, which: Ints | Flags) -> RankCalls:
        return RankCalls(*(values[which] for values in astuple(self)))


class SyncPoints(Struct, frozen=True, dict=True):
    """Where the devices of a run meet, in an order in which each can reach its own: levels that share no device."""

    calls: tuple[RankCalls, ...]  # of each device, without those that are not whole or would deadlock
    first: Ints  # the number of each device's first call: calls are numbered device by device
    steps: tuple[_Step, ...]

    @classmethod
    def of_calls(cls, calls: Sequence[RankCalls], sizes: Mapping[int, int]) -> Self:
        """Find the sync points of devices; `sizes` is how many members each collective has, in the run and outside."""
        matches, code, present = np.unique(
            np.concatenate([np.zeros(0, np.int64), *(own.match for own in calls)]),
            return_inverse=True,
            return_counts=True,
        )
        code = code.astype(np.int32)
        whole = present == np.asarray([sizes.get(match, 0) for match in matches.tolist()], np.int64)
        codes = np.split(code, np.cumsum([len(own.match) for own in calls], dtype=np.int64)[:-1])[: len(calls)]
        levels, left_out = _levels([own[whole[own]] for own in codes], present)
        whole[left_out] = False
        kept = [
            own if whole[of_own].all() else own.taken(whole[of_own]) for own, of_own in zip(calls, codes, strict=True)
        ]
        code = code[whole[code]]
        first = np.cumsum([0, *(len(own.match) for own in kept)])
        order = np.lexsort((code, levels[code])).astype(np.int32)
        edges = np.flatnonzero(np.diff(levels[code[order]], prepend=NO_ROW, append=NO_ROW)).tolist()
        wait, dur, is_message = (
            np.concatenate([getattr(own, name) for own in kept] or [np.zeros(0, np.int64)])
            for name in ("wait_ns", "dur_ns", "is_message")
        )
        steps = []
        for low, high in itertools.pairwise(edges):
            of_step = order[low:high]
            sync_point = np.flatnonzero(np.diff(code[of_step], prepend=NO_ROW))
            of_call = np.repeat(
                np.arange(len(sync_point), dtype=np.int32), np.diff(np.append(sync_point, len(of_step)))
            )
            messages = np.logical_or.reduceat(is_message[of_step], sync_point)[of_call]
            transfer = np.maximum(0, np.minimum.reduceat(dur[of_step], sync_point))
            steps.append(_Step(of_step, sync_point, of_call, wait[of_step][:, None], messages[:, None], transfer))
        return cls(tuple(kept), first, tuple(steps))

    def __bool__(self) -> bool:
        """Return whether any devices meet."""
        return self.count > 0

    @cached_property
    def positions(self) -> list[list[int]]:
        """The positions at which each device meets others, in the order of the sync points."""
        return [calls.position.tolist() for calls in self.calls]

    @property
    def count(self) -> int:
        """The number of calls."""
        return int(self.first[-1])

    def points(self) -> Points:
        """Return the sync points as a pass over all events reads them."""
        none = np.zeros(0, np.int64)
        calls = np.concatenate([none, *(step.calls for step in self.steps)])
        before = np.cumsum([0, *(len(step.calls) for step in self.steps)])
        begins = [step.sync_point + offset for step, offset in zip(self.steps, before.tolist()[:-1], strict=True)]
        messages = (step.is_message[step.sync_point, 0] for step in self.steps)
        return Points(
            np.concatenate([*begins, before[-1:]]),
            self._device()[calls].astype(np.int64),
            np.concatenate([none, *(own.position for own in self.calls)])[calls],
            np.concatenate([none, *(step.wait[:, 0] for step in self.steps)]),
            np.concatenate([none, *(step.transfer for step in self.steps)]),
            np.concatenate([np.zeros(0, np.bool_), *messages]),
            np.zeros(len(self.calls), np.bool_),
        )

    def begun(self, found: ReducedCalls, left: Ints) -> Ints:
        """Return the shifts with which calls begin where calls are left with these, as reduced scans have it."""
        padded = np.concatenate([left, np.full((1, left.shape[1]), UNLIMITED)])
        return _least(found, slice(None), padded)

    def shifts(self, found: ReducedCalls, more_ns: Ints, balanced: Flags) -> tuple[Ints, Ints]:
        """Return the shifts with which calls are left and begun, given how their devices arrive.

        `found` has the arrivals of all devices, where `before` numbers calls; `more_ns` is added to each arrival.
        `balanced` says of each call in which what-ifs its device is never late.
        """
        left = np.zeros((self.count + 1, more_ns.shape[1]), np.int64)
        left[NO_ROW] = UNLIMITED
        begun = np.zeros_like(more_ns)
        for calls, sync_point, of_call, wait, is_message, transfer in self.steps:
            start = _least(found, calls, left) + more_ns[calls]
            begun[calls] = start
            even = balanced[calls] & ~is_message
            arrival = wait + start
            cut = np.minimum.reduceat(found.shorter_ns[calls] - np.where(even, wait, 0), sync_point)
            awaited = np.minimum.reduceat(np.where(even, UNLIMITED, arrival), sync_point)
            shift = awaited
            if even.any():
                shift = np.where(
                    np.logical_and.reduceat(even, sync_point), np.maximum.reduceat(arrival, sync_point), awaited
                )
            left[calls] = (shift + np.clip(cut, 0, transfer[:, None]))[of_call]
        return left[:-1], begun

    def most_by_one(self) -> Ints:
        """Return, by device, the sum of what each sync point gains where that device, alone, was the last."""
        device, most = self._device(), np.zeros(len(self.calls), np.int64)
        for calls, sync_point, of_call, wait, *_ in self.steps:
            by_wait = np.lexsort((wait[:, 0], of_call))
            has_second = np.diff(np.append(sync_point, len(calls))) > 1
            last, second = by_wait[sync_point[has_second]], by_wait[sync_point[has_second] + 1]
            np.add.at(most, device[calls[last]], wait[second, 0])
        return most

    def _device(self) -> Numbers:
        return np.repeat(np.arange(len(self.calls), dtype=np.int32), np.diff(self.first))

    def off_by(self, error_ns: Ints) -> Ints:
        """Return how far off the shift of each call is at most, where arrivals were off by `error_ns`."""
        error_ns = np.abs(error_ns)
        off = np.zeros_like(error_ns)
        if not error_ns.any():
            return off
        device = self._device()
        so_far = np.zeros((len(self.calls), error_ns.shape[1]), np.int64)
        for calls, sync_point, of_call, *_ in self.steps:
            worst = np.maximum.reduceat(so_far[device[calls]] + error_ns[calls], sync_point)[of_call]
            off[calls] = so_far[device[calls]] = worst
        return off


class _Step(NamedTuple):
    """The sync points of one level."""

    calls: Numbers  # those of a sync point next to each other
    sync_point: Ints  # where in `calls` each sync point begins
    of_call: Numbers  # the sync point of each call
    wait: Ints
    is_message: Flags
    transfer: Ints  # of each sync point


def _least(found: ReducedCalls, calls: Numbers | slice, left: Ints) -> Ints:
    """Return the shifts with which calls begin; the last row of `left` stands for no call."""
    scenarios = np.arange(left.shape[1])
    start = found.limit_ns[calls].copy()
    for nth in range(found.before.shape[1]):
        np.minimum(start, left[found.before[calls, nth], scenarios] + found.slack_ns[calls, nth], out=start)
    return start


def _levels(codes: Sequence[Numbers], sizes: Ints) -> tuple[Numbers, Ints]:
    """Return the level of each match, and the matches that would deadlock; `codes` are each device's matches."""
    counts = np.asarray([len(own) for own in codes], np.int64)
    ends = np.cumsum(counts)
    flat = np.concatenate([np.zeros(0, np.int32), *codes])
    head = ends - counts
    level, there = np.full(len(sizes), NO_ROW, np.int32), np.zeros(len(sizes), np.int64)
    left_out: list[int] = []
    arriving = np.flatnonzero(head < ends)
    number = 0
    while True:
        np.add.at(there, flat[head[arriving]], 1)
        waiting = np.flatnonzero(head < ends)
        if not len(waiting):
            return level, np.asarray(left_out, np.int64)
        of_waiting = flat[head[waiting]]
        ready = there[of_waiting] == sizes[of_waiting]
        if ready.any():
            level[of_waiting[ready]] = number
            number += 1
            arriving = waiting[ready]
        else:
            # What the first device that is stuck waits for.
            left_out.append(int(of_waiting[0]))
            arriving = waiting[of_waiting == of_waiting[0]]
        head[arriving] += 1
        arriving = _past(flat, head, ends, arriving, left_out)


def _past(flat: Numbers, head: Ints, ends: Ints, devices: Ints, left_out: list[int]) -> Ints:
    """Move devices past sync points that are left out, and return those that have one more."""
    going = devices
    while left_out and len(going):
        going = going[head[going] < ends[going]]
        going = going[np.isin(flat[head[going]], left_out)]
        head[going] += 1
    return devices[head[devices] < ends[devices]]
