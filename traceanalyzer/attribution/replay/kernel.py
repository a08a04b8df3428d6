"""The replay: one pass over the events of devices under one what-if, which finds how much earlier each event ends.

Devices meet in synchronization points. Its members leave one together: with the least, over the members, of the time
that a member waited there for the last one plus the shift with which it now arrives. So a faster slowest rank helps
until the second-slowest rank is last. Only durations are compared, so the ranks' clocks need not agree.

`replay_pass.c` does the same; it is used where it was built from the source beside this file.
"""

from __future__ import annotations

import ctypes
import zlib
from collections.abc import Sequence
from functools import cache, cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import NO_ROW, Flags, Ints

# Far above any shift, and far enough below the largest integer to add to.
NO_LIMIT = int(np.iinfo(np.int64).max // 4)

LIBRARY = Path(__file__).with_name("replay_pass.so")
SOURCE = Path(__file__).with_name("replay_pass.c")

# The fields of ScanEvents at one event.
_Row = tuple[bool, int, int, int, int, int, int, int]


class Need(NamedTuple):
    """An earlier op that an event waits for, and how long that op was done before the binding constraint."""

    position: int
    slack_ns: int


class Changes(NamedTuple):
    """What a what-if changes, one entry per event."""

    host_gain_ns: Ints  # host time removed before the event
    wait_removed: Flags
    earlier_ns: Ints  # the event starts earlier by this, on top of its shift
    shorter_ns: Ints  # the event runs shorter by this


class ScanEvents(Struct, frozen=True, dict=True):
    """What the pass reads of each event: one array per column of replay_events, NO_ROW and NO_LIMIT for NULL."""

    is_op: Flags
    host_slack_ns: Ints
    shift_limit_ns: Ints
    pred1: Ints
    pred1_slack_ns: Ints
    pred2: Ints
    pred2_slack_ns: Ints
    more: list[tuple[Need, ...]]  # ops beyond pred1 and pred2
    explained_wait_ns: Ints  # of a wait: how long the call itself waited

    @property
    def count(self) -> int:
        return len(self.is_op)

    @property
    def _columns(self) -> tuple[NDArray[Any], ...]:
        return (
            self.is_op,
            self.host_slack_ns,
            self.shift_limit_ns,
            self.pred1,
            self.pred1_slack_ns,
            self.pred2,
            self.pred2_slack_ns,
            self.explained_wait_ns,
        )

    @cached_property
    def native(self) -> tuple[list[NDArray[Any]], list[int]]:
        """The arrays that the library reads, and their addresses with the number of needs, as in `_Device`."""
        needs = [(at, *need) for at, of_event in enumerate(self.more) for need in of_event]
        more = np.ascontiguousarray(np.asarray(needs, np.int64).reshape(-1, 3).T)
        arrays = [*map(np.ascontiguousarray, self._columns), *more]
        addresses = [array.ctypes.data for array in arrays]
        return [*arrays, more], [*addresses[:8], len(needs), *addresses[8:]]

    @cached_property
    def rows(self) -> list[_Row]:
        """The columns, one plain tuple per event."""
        return list(zip(*(column.tolist() for column in self._columns), strict=True))


class DeviceReplay:
    """A device in a replay: its events, what changes (None: nothing), and how much earlier each event ends."""

    def __init__(self, events: ScanEvents, changes: Changes | None, until: int | None = None) -> None:
        """Take how many events are passed over in all, if not all."""
        self.events, self.changes = events, changes
        self.until = events.count if until is None else until
        self.ends = np.empty(events.count, np.int64)
        self.moves = changes is not None  # or others make it happen earlier; else, `ends` says nothing


class Points(NamedTuple):
    """Synchronization points in an order in which each device can reach its own."""

    first: Ints  # where the members of each begin, and how many there are in all
    device: Ints  # of each member
    position: Ints
    wait: Ints  # for the last member
    transfer: Ints  # of each point: how much shorter it can get at most
    is_message: Flags
    balanced: Flags  # of each device: never late
    given: Ints | None = None  # the shifts with which points are left, where they are not to be found

    @classmethod
    def of_positions(cls, positions: Sequence[int], given: Ints) -> Points:
        """Return points of one device alone, which are left with given shifts."""
        count = len(positions)
        none = np.zeros(count, np.int64)
        no = np.zeros(count, np.bool_)
        at = np.asarray(positions, np.int64)
        return cls(np.arange(count + 1), none, at, none, none, no, np.zeros(1, np.bool_), np.ascontiguousarray(given))


_NO_POINTS = Points.of_positions((), np.zeros(0, np.int64))


def replay(devices: Sequence[DeviceReplay], points: Points = _NO_POINTS, bits: int = 0) -> Ints:
    """Pass over the events of devices, and return the shifts with which members of points begin.

    Times of events and changes are taken 2 ** `bits` times; shifts that are given are as they are.
    """
    library = _library()
    return _plain(devices, points, 1 << bits) if library is None else _compiled(library, devices, points, 1 << bits)


def replay_alone(events: ScanEvents, changes: Changes) -> Ints:
    """Return how much earlier the events of one device end if no other device makes it wait."""
    device = DeviceReplay(events, changes)
    replay([device])
    return device.ends


class DevicePart(NamedTuple):
    """One device's part of a run: its events, the positions of its sync points, and what each what-if changes."""

    events: ScanEvents
    positions: Sequence[int]
    changes: Sequence[Changes]


def starts(part: DevicePart, left: Ints, bits: int = 0) -> Ints:
    """Return the shifts with which the sync points of a part start, in the shape of what they are left with.

    `left` has a row for each sync point, and a column for each of the changes or several: one of each, then another
    one of each. Times of events and changes are taken 2 ** `bits` times.
    """
    until = max(part.positions, default=NO_ROW) + 1
    found = np.empty_like(left)
    for column, given in enumerate(np.ascontiguousarray(left.T)):
        device = DeviceReplay(part.events, part.changes[column % len(part.changes)], until)
        found[:, column] = replay([device], Points.of_positions(part.positions, given), bits)
    return found


def _plain(devices: Sequence[DeviceReplay], points: Points, unit: int) -> Ints:
    passes = [_PlainPass(device, unit) for device in devices]
    first, device_of, position, wait, transfer, is_message, balanced = (column.tolist() for column in points[:7])
    begun = np.zeros(len(device_of), np.int64)
    for nth, of_message in enumerate(is_message):
        members = range(first[nth], first[nth + 1])
        awaited, arrivals, cuts = [], [], [transfer[nth]]
        for member in members:
            of_device, at = passes[device_of[member]], position[member]
            even = balanced[device_of[member]] and not of_message
            begun[member] = start = of_device.start_of(at)
            arrivals.append(wait[member] + start)
            awaited += [] if even else arrivals[-1:]
            cuts.append(of_device.shorter_ns(at) - (wait[member] if even else 0))
        # If no rank is late, all arrive with the first; if some are no longer late, the others do not wait for them.
        shift = (min(awaited) if awaited else max(arrivals)) + max(0, min(cuts))
        if points.given is not None:
            shift = int(points.given[nth])
        for member in members:
            passes[device_of[member]].leave(position[member], shift)
    for of_device in passes:
        of_device.finish()
    return begun


class _PlainPass:
    """A pass over the events of a device that can stop at any event."""

    def __init__(self, device: DeviceReplay, unit: int) -> None:
        self._device, self._unit = device, unit
        self._host, self._start = 0, 0
        self._ends: list[int] = []

    def start_of(self, position: int) -> int:
        """Return the shift with which an op starts."""
        if not self._device.moves:
            return 0
        self._advance(position + 1)
        return self._start

    def shorter_ns(self, position: int) -> int:
        """Return how much shorter an op is."""
        changes = self._device.changes
        return 0 if changes is None else int(changes.shorter_ns[position])

    def leave(self, position: int, shift: int) -> None:
        """Have an op end with a shift that others set."""
        if not self._device.moves and shift:
            self._device.moves = True
            self._ends = [0] * (position + 1)  # before, all its shifts are 0
        if self._device.moves:
            self._ends[position] = shift

    def finish(self) -> None:
        """Pass over the events that are left."""
        if self._device.moves:
            self._advance(self._device.until)
            self._device.ends[: len(self._ends)] = self._ends

    def _advance(self, until: int) -> None:
        """Pass over the events before a position.

        Comparisons are written out: calls of min and max would take half of the time.
        """
        ends, host, start, unit = self._ends, self._host, self._start, self._unit
        since = len(ends)
        rows, more, changes = self._device.events.rows, self._device.events.more, self._device.changes
        nothing = [(0, False, 0, 0)] * max(0, until - since)
        changed = nothing if changes is None else zip(*(one[since:until].tolist() for one in changes), strict=True)
        for at, (row, (gain, removed, earlier, shorter)) in enumerate(
            zip(rows[since:until], changed, strict=True), since
        ):
            is_op, host_slack, limit, pred1, pred1_slack, pred2, pred2_slack, explained_wait = row
            limit = limit * unit if limit < NO_LIMIT else limit
            host += gain * unit
            if not is_op:
                if not removed:
                    host = host + explained_wait * unit if host + explained_wait * unit < limit else limit
                    if pred1 != NO_ROW and ends[pred1] + pred1_slack * unit < host:
                        host = ends[pred1] + pred1_slack * unit
                start = 0
                # A batch that was ready cannot lower the shift of earlier batches.
                ends.append(ends[pred2] if pred2 != NO_ROW and ends[pred2] > host else host)
                continue
            shift, most = limit, 0
            if host_slack < NO_LIMIT:
                shift, most = host + host_slack * unit if host + host_slack * unit < limit else limit, host
            if pred1 != NO_ROW:
                before = ends[pred1]
                shift = before + pred1_slack * unit if before + pred1_slack * unit < shift else shift
                most = before if before > most else most
            if pred2 != NO_ROW:
                before = ends[pred2]
                shift = before + pred2_slack * unit if before + pred2_slack * unit < shift else shift
                most = before if before > most else most
            for position, slack in more[at]:
                before = ends[position]
                shift = before + slack * unit if before + slack * unit < shift else shift
                most = before if before > most else most
            start = (most if most < shift else shift) + earlier * unit
            ends.append(start + shorter * unit)
        self._host, self._start = host, start


class _Device(ctypes.Structure):
    """As in the library: how many events, 8 columns, the needs, 4 columns of changes, the ends, and where it is."""

    _fields_ = [
        ("until", ctypes.c_int64),
        ("columns", ctypes.c_void_p * 8),
        ("more_count", ctypes.c_int64),
        ("more", ctypes.c_void_p * 3),
        ("changes", ctypes.c_void_p * 4),
        ("ends", ctypes.c_void_p),
        ("moves", ctypes.c_int64),
        ("state", ctypes.c_int64 * 4),
    ]


class _Points(ctypes.Structure):
    """As in the library: how many points, their columns, and where the shifts go with which members begin."""

    _fields_ = [("count", ctypes.c_int64), ("columns", ctypes.c_void_p * 9)]


@cache
def _library() -> ctypes.CDLL | None:
    """Return the library, where it was built from the source beside it."""
    try:
        library = ctypes.CDLL(str(LIBRARY))
        library.kernel_source.restype = ctypes.c_uint32
        if library.kernel_source() != zlib.crc32(SOURCE.read_bytes()):
            return None
    except (OSError, AttributeError):
        return None
    pointer, number = ctypes.c_void_p, ctypes.c_int64
    library.kernel_replay.restype, library.kernel_replay.argtypes = None, [pointer, number, pointer, number]
    return library


def _compiled(library: ctypes.CDLL, devices: Sequence[DeviceReplay], points: Points, unit: int) -> Ints:
    begun = np.zeros(len(points.device), np.int64)
    held = []  # arrays, as long as the library reads them
    structs = (_Device * len(devices))()
    for struct, device in zip(structs, devices, strict=True):
        _, native = device.events.native
        struct.until, struct.more_count = device.until, native[8]
        struct.columns[:], struct.more[:] = native[:8], native[9:]
        if device.changes is not None:
            arrays = [np.ascontiguousarray(one) for one in device.changes]
            held.append(arrays)
            struct.changes[:] = [array.ctypes.data for array in arrays]
        struct.ends, struct.moves = device.ends.ctypes.data, device.moves
    columns = [None if one is None else one.ctypes.data for one in (*points, begun)]
    of_points = _Points(len(points.is_message))
    of_points.columns[:] = columns
    library.kernel_replay(ctypes.byref(structs), len(devices), ctypes.byref(of_points), unit)
    for struct, device in zip(structs, devices, strict=True):
        device.moves = bool(struct.moves)
    return begun
