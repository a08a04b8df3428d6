"""The lead scan over all ranks of a run, without their events: each rank's scan is contracted to its meetings.

What-ifs are answered in rounds. Each rank contracts its scan (`contraction`), the meetings alone are passed over in
numpy, and each rank then passes over its events with the leads that came out. Where it arrives with the leads that were
computed, these are what a scan of all events gives. Where it does not, the next round knows what the difference came
from, which settles at least the first meeting that differed. After the last round, the differences that are left bound
how far off each lead can be: leads are sums, least and largest values of leads before, so a difference never grows.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np

from traceanalyzer.attribution.lead_scan.contraction import (
    PREDECESSORS,
    UNLIMITED,
    Arrivals,
    Arrived,
    Numbers,
    arrivals,
    contract,
)
from traceanalyzer.attribution.lead_scan.scan import Scan, WhatIf
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import MESSAGE, STRAGGLER_WAIT, Flags, Ints

# Most what-ifs are settled by the first or second round, those of jobs with much jitter by the fifth.
ROUNDS = 10
# What the answers of one pass over all meetings may take.
_PASS_BYTES = 1 << 29
# What a pass over the events of one scan may take.
_LANE_BYTES = 1 << 26
_BYTES_A_CALL = 12 * (PREDECESSORS + 1) + 72


@dataclass(frozen=True)
class RankCalls:
    """The collectives and messages of one device that all their members have matched, in the order of its scan."""

    position: Ints  # in the scan
    match: Ints
    wait_ns: Ints  # for the last member
    dur_ns: Ints
    end_ns: Ints
    is_message: Flags

    @classmethod
    def of_scan(cls, scan: Scan) -> Self:
        """Return the calls of a scan."""
        at = np.flatnonzero(scan.match != NO_ROW)
        is_message = scan.cause_of_op.where(lambda name: name == MESSAGE)
        return cls(at, scan.match[at], scan.wait[at], scan.dur[at], scan.end[at], is_message[at])

    def taken(self, which: Ints | Flags) -> RankCalls:
        """Return some of the calls."""
        return RankCalls(*(getattr(self, name)[which] for name in RankCalls.__dataclass_fields__))


class RankScans:
    """The scans of a run's devices, by their number: what passes over events; here in this process, one by one."""

    def __init__(self, scan_of: Callable[[int], Scan]) -> None:
        self.scan_of = scan_of

    def contract(self, asked: Sequence[Asked]) -> Iterator[Arrivals]:
        """Return the contraction of each scan that is asked."""
        for item in asked:
            scan = self.scan_of(item.scan)
            yield contract(scan, item.positions, [scan.changes(what_if) for what_if in item.what_ifs])

    def arrivals(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each scan that is asked arrives at its meetings, given the leads of these."""
        for item, of_scan in zip(asked, leads, strict=True):
            scan = self.scan_of(item.scan)
            changes = [scan.changes(what_if) for what_if in item.what_ifs]
            at_once = max(16, _LANE_BYTES // (8 * max(scan.events.count, 1)))
            parts = [
                arrivals(scan, item.positions, changes[first : first + at_once], of_scan[:, first : first + at_once])
                for first in range(0, len(changes), at_once)
            ]
            yield Arrived(*(np.concatenate(columns, axis=1) for columns in zip(*parts, strict=True)))


class Asked(NamedTuple):
    """What is asked of one scan: its meetings' positions, and the what-ifs there."""

    scan: int
    positions: Sequence[int]
    what_ifs: Sequence[WhatIf]


class CallLeads(NamedTuple):
    """The lead with which each call is left (row) in each what-if (column), and how far off it is at most."""

    lead_ns: Ints
    off_ns: Ints


@dataclass(frozen=True)
class Meetings:
    """Where the devices of a run meet, in an order in which each can reach its own: levels that share no device."""

    calls: tuple[RankCalls, ...]  # of each device, without those that are not whole or would deadlock
    first: Ints  # the number of each device's first call: calls are numbered device by device
    steps: tuple[_Step, ...]

    @classmethod
    def of_calls(cls, calls: Sequence[RankCalls], sizes: Mapping[int, int]) -> Self:
        """Find the meetings of devices; `sizes` is how many members each collective has, in the run and outside."""
        matches, code, present = np.unique(
            np.concatenate([np.zeros(0, np.int64), *(own.match for own in calls)]),
            return_inverse=True,
            return_counts=True,
        )
        code = code.astype(np.int32)
        whole = present == np.asarray([sizes.get(match, 0) for match in matches.tolist()], np.int64)
        codes = np.split(code, np.cumsum([len(own.match) for own in calls])[:-1])
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
            mine = order[low:high]
            meeting = np.flatnonzero(np.diff(code[mine], prepend=NO_ROW))
            of_call = np.repeat(np.arange(len(meeting), dtype=np.int32), np.diff(np.append(meeting, len(mine))))
            messages = np.logical_or.reduceat(is_message[mine], meeting)[of_call]
            transfer = np.maximum(0, np.minimum.reduceat(dur[mine], meeting))
            steps.append(_Step(mine, meeting, of_call, wait[mine][:, None], messages[:, None], transfer))
        return cls(tuple(kept), first, tuple(steps))

    def __bool__(self) -> bool:
        """Return whether any devices meet."""
        return self.count > 0

    @property
    def count(self) -> int:
        """The number of calls."""
        return int(self.first[-1])

    def begun(self, found: Arrivals, left: Ints) -> Ints:
        """Return the leads with which calls begin where calls are left with these, as contracted scans have it."""
        padded = np.concatenate([left, np.full((1, left.shape[1]), UNLIMITED)])
        return _least(found, slice(None), padded)

    def leads(self, found: Arrivals, more_ns: Ints, balanced: Flags) -> tuple[Ints, Ints]:
        """Return the leads with which calls are left and begun, given how their devices arrive.

        `found` has the arrivals of all devices, where `before` numbers calls; `more_ns` is added to each arrival.
        `balanced` says of each call in which what-ifs its device is never late.
        """
        left = np.zeros((self.count + 1, more_ns.shape[1]), np.int64)
        left[NO_ROW] = UNLIMITED
        begun = np.zeros_like(more_ns)
        for calls, meeting, of_call, wait, is_message, transfer in self.steps:
            start = _least(found, calls, left) + more_ns[calls]
            begun[calls] = start
            even = balanced[calls] & ~is_message
            arrival = wait + start
            cut = np.minimum.reduceat(found.shorter_ns[calls] - np.where(even, wait, 0), meeting)
            awaited = np.minimum.reduceat(np.where(even, UNLIMITED, arrival), meeting)
            lead = awaited
            if even.any():
                lead = np.where(np.logical_and.reduceat(even, meeting), np.maximum.reduceat(arrival, meeting), awaited)
            left[calls] = (lead + np.clip(cut, 0, transfer[:, None]))[of_call]
        return left[:-1], begun

    def most_by_one(self) -> Ints:
        """Return, by device, the sum of what each meeting gains where that device, alone, was the last."""
        device, most = self._device(), np.zeros(len(self.calls), np.int64)
        for calls, meeting, of_call, wait, *_ in self.steps:
            by_wait = np.lexsort((wait[:, 0], of_call))
            has_second = np.diff(np.append(meeting, len(calls))) > 1
            last, second = by_wait[meeting[has_second]], by_wait[meeting[has_second] + 1]
            np.add.at(most, device[calls[last]], wait[second, 0])
        return most

    def _device(self) -> Numbers:
        """Return the device of each call."""
        return np.repeat(np.arange(len(self.calls), dtype=np.int32), np.diff(self.first))

    def off_by(self, error_ns: Ints) -> Ints:
        """Return how far off the lead of each call is at most, where arrivals were off by `error_ns`."""
        error_ns = np.abs(error_ns)
        off = np.zeros_like(error_ns)
        if not error_ns.any():
            return off
        device = self._device()
        so_far = np.zeros((len(self.calls), error_ns.shape[1]), np.int64)
        for calls, meeting, of_call, *_ in self.steps:
            worst = np.maximum.reduceat(so_far[device[calls]] + error_ns[calls], meeting)[of_call]
            off[calls] = so_far[device[calls]] = worst
        return off


def _least(found: Arrivals, calls: Numbers | slice, left: Ints) -> Ints:
    """Return the leads with which calls begin; the last row of `left` stands for no call."""
    lanes = np.arange(left.shape[1])
    start = found.limit_ns[calls].copy()
    for nth in range(found.before.shape[1]):
        np.minimum(start, left[found.before[calls, nth], lanes] + found.slack_ns[calls, nth], out=start)
    return start


def _with_sources(found: Arrivals, arrived: Arrived, left: Ints) -> Arrivals:
    """Return arrivals that also know the calls that leads came from in a pass over all events."""
    padded = np.concatenate([left, np.zeros((1, left.shape[1]), np.int64)])
    slack = arrived.lead_ns - padded[arrived.source, np.arange(left.shape[1])]
    limit = np.where(arrived.source == NO_ROW, np.minimum(found.limit_ns, arrived.lead_ns), found.limit_ns)
    return Arrivals(
        limit,
        np.concatenate([found.before, arrived.source[:, None]], axis=1),
        np.concatenate([found.slack_ns, slack[:, None]], axis=1),
        found.shorter_ns,
    )


class _Step(NamedTuple):
    """The meetings of one level."""

    calls: Numbers  # those of a meeting next to each other
    meeting: Ints  # where in `calls` each meeting begins
    of_call: Numbers  # the meeting of each call
    wait: Ints
    is_message: Flags
    transfer: Ints  # of each meeting


def _levels(codes: Sequence[Numbers], sizes: Ints) -> tuple[Numbers, Ints]:
    """Return the level of each match, and the matches that would deadlock; `codes` are each device's matches."""
    ends = np.cumsum([len(own) for own in codes])
    flat = np.concatenate([np.zeros(0, np.int32), *codes])
    head = ends - [len(own) for own in codes]
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
            # The same meeting is left out as in the scan of all events: what the first device that is stuck waits for.
            left_out.append(int(of_waiting[0]))
            arriving = waiting[of_waiting == of_waiting[0]]
        head[arriving] += 1
        arriving = _past(flat, head, ends, arriving, left_out)


def _past(flat: Numbers, head: Ints, ends: Ints, devices: Ints, left_out: list[int]) -> Ints:
    """Move devices past meetings that are left out, and return those that have one more."""
    going = devices
    while left_out and len(going):
        going = going[head[going] < ends[going]]
        going = going[np.isin(flat[head[going]], left_out)]
        head[going] += 1
    return devices[head[devices] < ends[devices]]


@dataclass(frozen=True)
class ContractedRun:
    """Answers what-ifs about all ranks from contracted scans."""

    meetings: Meetings
    scans: RankScans
    rounds: int = ROUNDS

    def leads(self, asked: Sequence[Sequence[WhatIf]], calls: Ints | None = None, rounds: int = ROUNDS) -> CallLeads:
        """Return the leads of calls, one column for each element of `asked`, each of which has one what-if per device.

        `calls` are their numbers, by default all.
        """
        lanes = max(1, _PASS_BYTES // (_BYTES_A_CALL * max(self.meetings.count, 1)))
        parts = [self._leads(asked[first : first + lanes], calls) for first in range(0, len(asked), lanes)]
        return CallLeads(*(np.concatenate(column, axis=1) for column in zip(*parts, strict=True)))

    @cached_property
    def positions(self) -> list[list[int]]:
        """The positions at which each scan meets others."""
        return [calls.position.tolist() for calls in self.meetings.calls]

    @cached_property
    def most_by_one(self) -> Ints:
        """The largest lead that other scans can have where changes are made in one scan alone, by that scan.

        In a meeting at which it alone came last, the others wait for the last of them instead.
        """
        return self.meetings.most_by_one()

    @cached_property
    def _unchanged(self) -> dict[int, Arrivals]:
        """The contractions of scans in which nothing changes, by number, as far as they were needed."""
        return {}

    def _leads(self, asked: Sequence[Sequence[WhatIf]], calls: Ints | None) -> CallLeads:
        by_scan = list(zip(*asked, strict=True))
        found = self._arrivals(by_scan)
        of_scans = [[STRAGGLER_WAIT in what_if.removed for what_if in what_ifs] for what_ifs in by_scan]
        balanced = np.repeat(np.asarray(of_scans), np.diff(self.meetings.first), axis=0)
        lanes = np.arange(len(asked))  # of the what-ifs that are not settled
        more = np.zeros((self.meetings.count, len(asked)), np.int64)
        chosen: Ints | slice = slice(None) if calls is None else calls
        count = self.meetings.count if calls is None else len(calls)
        lead, off = (np.zeros((count, len(asked)), np.int64) for _ in range(2))
        for left_rounds in reversed(range(self.rounds)):
            left, begun = self.meetings.leads(found, more, balanced)
            arrived = self._arrived(by_scan, left, begun)
            error = np.subtract(arrived.lead_ns, begun, out=begun)
            is_open: Flags = np.any(error, axis=0)
            lead[:, lanes] = left[chosen]
            off[:, lanes] = self.meetings.off_by(error)[chosen] if is_open.any() else 0
            if not is_open.any() or not left_rounds:
                break
            lanes, left, balanced = lanes[is_open], left[:, is_open], balanced[:, is_open]
            by_scan = [tuple(itertools.compress(what_ifs, is_open)) for what_ifs in by_scan]
            arrived = Arrived(arrived.lead_ns[:, is_open], arrived.source[:, is_open])
            found = _with_sources(Arrivals(*(array[..., is_open] for array in found.arrays)), arrived, left)
            more = arrived.lead_ns - self.meetings.begun(found, left)
        return CallLeads(lead, off)

    def _arrivals(self, by_scan: Sequence[Sequence[WhatIf]]) -> Arrivals:
        """Return the contractions of all devices one after the other, where `before` numbers calls of all devices."""
        self._contract_unchanged(by_scan)
        nothing = WhatIf()
        changed = [
            Asked(scan, self.positions[scan], [what_if for what_if in what_ifs if what_if != nothing])
            for scan, what_ifs in enumerate(by_scan)
            if any(what_if != nothing for what_if in what_ifs) and len(self.meetings.calls[scan].match)
        ]
        answers = zip(changed, self.scans.contract(changed), strict=True)
        of_changed = {item.scan: answer for item, answer in answers}
        count, lanes = self.meetings.count, len(by_scan[0])
        whole = Arrivals(
            np.empty((count, lanes), np.int64),
            np.empty((count, PREDECESSORS, lanes), np.int32),
            np.empty((count, PREDECESSORS, lanes), np.int64),
            np.empty((count, lanes), np.int64),
        )
        for scan, what_ifs in enumerate(by_scan):
            low, high = self.meetings.first[scan : scan + 2]
            if low == high:
                continue
            is_changed = np.asarray([what_if != nothing for what_if in what_ifs])
            for nth, array in enumerate(whole.arrays):
                into = array[low:high]
                if is_changed.any():
                    into[..., is_changed] = of_changed[scan].arrays[nth]
                if not is_changed.all():
                    into[..., ~is_changed] = self._unchanged[scan].arrays[nth]
            before = whole.before[low:high]
            before[before != NO_ROW] += low
        return whole

    def _contract_unchanged(self, by_scan: Sequence[Sequence[WhatIf]]) -> None:
        nothing = WhatIf()
        missing = [
            Asked(scan, self.positions[scan], [nothing])
            for scan, what_ifs in enumerate(by_scan)
            if scan not in self._unchanged and nothing in what_ifs and len(self.meetings.calls[scan].match)
        ]
        for item, answer in zip(missing, self.scans.contract(missing), strict=True):
            self._unchanged[item.scan] = answer

    def _arrived(self, by_scan: Sequence[Sequence[WhatIf]], left: Ints, begun: Ints) -> Arrived:
        """Return how devices arrive where calls are left with these leads: by passes over their events."""
        asked, leads, places = [], [], []
        nothing = WhatIf()
        found = Arrived(begun.copy(), np.full(begun.shape, NO_ROW, np.int32))
        for scan, what_ifs in enumerate(by_scan):
            low, high = self.meetings.first[scan : scan + 2].tolist()
            moved: Flags = np.any(left[low:high] != 0, axis=0)
            lanes = [lane for lane, what_if in enumerate(what_ifs) if moved[lane] or what_if != nothing]
            if low == high or not lanes:
                continue  # Where nothing changes and nothing comes earlier, all leads are 0.
            asked.append(Asked(scan, self.positions[scan], [what_ifs[lane] for lane in lanes]))
            leads.append(left[low:high] if len(lanes) == left.shape[1] else left[low:high, lanes])
            places.append((low, high, lanes))
        for (low, high, lanes), answer in zip(places, self.scans.arrivals(asked, leads), strict=True):
            found.lead_ns[low:high, lanes] = answer.lead_ns
            found.source[low:high, lanes] = np.where(answer.source == NO_ROW, NO_ROW, answer.source + low)
        return found
