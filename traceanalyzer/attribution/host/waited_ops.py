"""The op that each blocking call waited for last, and for how long; streams without work cost nothing."""

from __future__ import annotations

from typing import Literal

import numpy as np
from msgspec import Struct

from traceanalyzer.attribution.columns import NO_ROW, Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import CLOCK_ERROR_NS, RETURN_MAX_NS, UNKNOWN_WAIT_NS, BlockingCalls
from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.attribution.records.host_slices import RecordedWaits, RowsById

_WORD = 1_024


def waited_ops(calls: BlockingCalls, ops: DeviceOps, waits: RecordedWaits) -> Ints:
    """Return the op of a device that each call waited for last; NO_ROW: none.

    The streams that a call waits for are empty when it returns, so this is the op on them that ended last. A call that
    waits for an event may return while its stream still has work; then it is the last op that had ended. A call that
    waits for a stream also waits for everything that the stream itself had to wait for. A long wait that nothing
    explains was for the op that ended just after it.
    """
    long = ~calls.of_event & (calls.end - calls.start > UNKNOWN_WAIT_NS)
    target = _waited_until(calls, ops, waits, calls.end + CLOCK_ERROR_NS)
    open_ones = (target == NO_ROW) & long
    if open_ones.any():
        target = np.where(open_ones, _waited_until(calls, ops, waits, calls.end + RETURN_MAX_NS), target)
    own = (calls.copy_op != NO_ROW) & (calls.copy_device == ops.device)
    copies = np.flatnonzero(calls.copy_op != NO_ROW)
    target[copies] = np.where(own[copies], RowsById(ops.op_id).of(calls.copy_op[copies]), NO_ROW)
    return target


class _Reaching(Struct, frozen=True):
    """Ops that end no sooner than any op launched before them to their stream, by stream and launch.

    They are also numbered by `place`: the later an op ends, the higher; of ops that end at once, that of the first
    stream is the highest.
    """

    row: Ints  # of the ops
    stream: Ints  # number of the stream
    streams: Ints  # by that number
    launch: Ints
    end: Ints
    place: Ints

    @classmethod
    def of(cls, ops: DeviceOps) -> _Reaching:
        rows = np.flatnonzero(ops.linked)
        rows = rows[np.lexsort((ops.launch_start[rows], ops.stream[rows]))]
        streams, stream = np.unique(ops.stream[rows], return_inverse=True)
        # In ranks of ends, a number for each stream ahead of them begins the maximum anew.
        rank = np.unique(ops.end[rows], return_inverse=True)[1] + stream * (len(rows) + 1)
        reach = rank == np.maximum.accumulate(rank) if len(rows) else np.zeros(0, np.bool_)
        rows, stream = rows[reach], stream[reach]
        end = ops.end[rows]
        place = np.empty(len(rows), np.int64)
        place[np.lexsort((np.arange(len(rows)), -stream, end))] = np.arange(len(rows))
        return cls(rows, stream, streams, ops.launch_start[rows], end, place)

    def of_stream(self, stream: Ints, until: Ints, end: Ints, of_event: Flags) -> Ints:
        """Return of each stream the last one launched before an instant; for an event, also ended up to `end`."""
        if not len(self.row):
            return np.full(len(stream), NO_ROW)
        number = np.minimum(np.searchsorted(self.streams, stream), len(self.streams) - 1)
        first = np.searchsorted(self.stream, number)
        last = _count_in(self.stream, self.launch, number, until, "left")
        ended = _count_in(self.stream, self.end, number, end, "right")
        last = np.where(of_event, np.minimum(last, ended), last) - 1
        known = (self.streams[number] == stream) & (last >= first)
        return np.where(known, last, NO_ROW)

    def ended_launched_before(self, until: Ints, end: Ints) -> Ints:
        """Return the last to end up to `end` of all that were launched before an instant."""
        by_place = np.argsort(self.place)
        found = _last_below(self.launch[by_place], np.searchsorted(self.end[by_place], end, side="right"), until)
        return np.where(found == NO_ROW, NO_ROW, by_place[found] if len(by_place) else NO_ROW)

    def last_of_all(self, until: Ints, end: Ints) -> Ints:
        """Return, of the last ones of all streams at an instant, the last to end up to `end`."""
        order = np.argsort(until, kind="stable")
        # The first call, in this order, by which each was launched. Others of its stream may replace it until then.
        seen = np.searchsorted(until[order], self.launch, side="right")
        last = np.append((np.diff(self.stream) != 0) | (np.diff(seen) != 0), True)[: len(seen)]
        kept = np.flatnonzero(last & (seen < len(until)))
        before = np.append(NO_ROW, kept[:-1])[: len(kept)]
        before[1:][self.stream[kept[1:]] != self.stream[kept[:-1]]] = NO_ROW
        by_place = kept[np.argsort(self.place[kept])]
        place = np.full(len(self.row), NO_ROW)
        place[by_place] = np.arange(len(by_place))
        up_to = (np.searchsorted(self.end[by_place], end[order], side="right") - 1).tolist()
        changes = np.argsort(seen[kept], kind="stable")
        bounds = np.searchsorted(seen[kept][changes], np.arange(len(until)), side="right").tolist()
        added, removed = (
            place[kept[changes]].tolist(),
            np.where(before == NO_ROW, NO_ROW, place[before])[changes].tolist(),
        )
        held, done, found = _Numbers(len(kept)), 0, []
        for bound, most in zip(bounds, up_to, strict=True):
            for at in range(done, bound):
                held.add(added[at])
                if removed[at] != NO_ROW:
                    held.remove(removed[at])
            done = bound
            found.append(held.largest_up_to(most))
        result = np.full(len(until), NO_ROW)
        numbers = np.asarray(found, np.int64)
        result[order[numbers != NO_ROW]] = by_place[numbers[numbers != NO_ROW]]
        return result


class _Numbers:
    """Numbers below a bound, of which the largest up to a number is found."""

    def __init__(self, bound: int) -> None:
        self._words = [0] * (bound // _WORD + 1)
        self._filled = 0

    def add(self, number: int) -> None:
        word, bit = divmod(number, _WORD)
        self._words[word] |= 1 << bit
        self._filled |= 1 << word

    def remove(self, number: int) -> None:
        word, bit = divmod(number, _WORD)
        self._words[word] &= ~(1 << bit)
        if not self._words[word]:
            self._filled &= ~(1 << word)

    def largest_up_to(self, number: int) -> int:
        if number < 0:
            return NO_ROW
        word, bit = divmod(number, _WORD)
        bits = self._words[word] & ((2 << bit) - 1)
        if not bits:
            word = (self._filled & ((1 << word) - 1)).bit_length() - 1
            bits = self._words[word] if word >= 0 else 0
        return word * _WORD + bits.bit_length() - 1 if bits else NO_ROW


def _count_in(group: Ints, values: Ints, of_group: Ints, limit: Ints, side: Literal["left", "right"]) -> Ints:
    """Return how many rows, sorted by group and value, lie in front of a limit in a group or in a group before it."""
    ranks, rank = np.unique(values, return_inverse=True)
    below = np.searchsorted(ranks, limit, side=side)
    return np.searchsorted(group * (len(ranks) + 1) + rank, of_group * (len(ranks) + 1) + below, side="left")


def _last_below(values: Ints, count: Ints, limit: Ints) -> Ints:
    """Return the last of the first `count` values that is below a limit; NO_ROW: none is."""
    levels = [values]
    while len(levels[-1]) > 1:
        even = np.append(levels[-1], [np.iinfo(np.int64).max] * (len(levels[-1]) % 2))
        levels.append(even.reshape(-1, 2).min(axis=1))
    # Upwards, each block that ends the part which is left is looked at; downwards, the one that has the value.
    found, height, left = np.full(len(count), NO_ROW), np.zeros(len(count), np.int64), count.copy()
    for level, least in enumerate(levels):
        odd = np.flatnonzero((left % 2 == 1) & (found == NO_ROW))
        hits = odd[least[left[odd] - 1] < limit[odd]]
        found[hits], height[hits] = left[hits] - 1, level
        left //= 2
    for level in range(len(levels) - 1, 0, -1):
        inside = np.flatnonzero((found != NO_ROW) & (height == level))
        right = 2 * found[inside] + 1
        there = right < len(levels[level - 1])
        is_right = there & (levels[level - 1][np.where(there, right, 0)] < limit[inside])
        found[inside], height[inside] = np.where(is_right, right, right - 1), level - 1
    return found


def _waited_until(calls: BlockingCalls, ops: DeviceOps, waits: RecordedWaits, end: Ints) -> Ints:
    """Return the op that each call waited for last, of those that ended up to an instant; NO_ROW: none."""
    reaching = _Reaching.of(ops)
    last = np.full(calls.count, NO_ROW)
    of_stream = np.flatnonzero(calls.stream != NO_ROW)
    last[of_stream] = reaching.of_stream(
        calls.stream[of_stream], calls.until[of_stream], end[of_stream], calls.of_event[of_stream]
    )
    of_events = np.flatnonzero((calls.stream == NO_ROW) & calls.of_event)
    last[of_events] = reaching.ended_launched_before(calls.until[of_events], end[of_events])
    of_all = np.flatnonzero((calls.stream == NO_ROW) & ~calls.of_event)
    last[of_all] = reaching.last_of_all(calls.until[of_all], end[of_all])
    known = np.flatnonzero(last != NO_ROW)
    known = known[reaching.end[last[known]] <= end[known]]
    target = np.full(calls.count, NO_ROW)
    target_end = np.full(calls.count, np.iinfo(np.int64).min)
    target[known], target_end[known] = reaching.row[last[known]], reaching.end[last[known]]
    for at in of_stream.tolist():
        for op in waits.waits_for(int(calls.stream[at]), int(calls.until[at])).values():
            if target_end[at] < ops.end[op] <= end[at]:
                target[at], target_end[at] = op, ops.end[op]
    return target


def device_waits_of(calls: BlockingCalls, ops: DeviceOps, target: Ints, stream_before: Ints) -> Ints:
    """Return how long each call waited for work that the device already had; 0: it waited for nothing.

    Freeing memory counts as a cost of its own and not as a wait, however long it takes.
    """
    # A copy waits for the op before it in its stream; its own time is no wait.
    own_copy = (calls.copy_op != NO_ROW) & (target != NO_ROW)
    awaited = np.where(own_copy, stream_before[target], target)
    busy_until = np.where(awaited == NO_ROW, calls.start, ops.end[awaited])
    waited = calls.release - calls.start - calls.least
    real = (busy_until > calls.start + CLOCK_ERROR_NS) & ~calls.frees
    return np.where(real, np.maximum(0, waited), 0)
