"""The pass of `walk` over many devices at once: over the first event of each, then over the second of each, and so on.

Each what-if of a device is a column, and all columns take a step together: it takes hardly longer than a step of one.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.replay.scan import Scan
from traceanalyzer.attribution.replay.walk import NO_LIMIT, Changes, ScanEvents

# The lead of an op that is not there is less than any; with its slack it is more than any.
_NO_END, _NO_SLACK = -(1 << 61), 1 << 62
# What is prepared at once of the events that come next, at most, and what that takes for an event of one column.
_BLOCK_BYTES = 1 << 24
_BYTES_AN_EVENT = 96


class DevicePart(NamedTuple):
    """One device's part of a pass: its scan, the positions of its sync points, and what each what-if changes."""

    scan: Scan
    positions: Sequence[int]
    changes: Sequence[Changes]


def starts(parts: Sequence[DevicePart], left: Sequence[Ints], bits: int = 0) -> list[Ints]:
    """Return the leads with which the sync points of each part start, in the shape of what they are left with.

    `left` has for each part a row for each sync point, and a column for each of its changes or several: one of each,
    then another one of each. Times of events and changes are taken 2 ** `bits` times.
    """
    order = _longest_first(parts)
    of_parts = [left[at] for at in order]
    sync_points, _ = _passed([parts[at] for at in order], of_parts, bits)
    return _as_given(order, sync_points.split(of_parts))


def ends(parts: Sequence[DevicePart], left: Sequence[Ints]) -> list[Ints]:
    """Return the leads with which the events of each part (rows) end, in each of its changes, as in `starts`."""
    order = _longest_first(parts)
    _, found = _passed([parts[at] for at in order], [left[at] for at in order], 0)
    edges = np.cumsum([left[at].shape[1] for at in order])[:-1]
    columns = zip(order, np.split(found[1:], edges, axis=1), strict=True)
    return _as_given(order, [own[: parts[at].scan.events.count] for at, own in columns])


def _longest_first(parts: Sequence[DevicePart]) -> list[int]:
    return sorted(range(len(parts)), key=lambda at: -parts[at].scan.events.count)


def _as_given(order: Sequence[int], found: Sequence[Ints]) -> list[Ints]:
    return [of_part for _, of_part in sorted(zip(order, found, strict=True), key=lambda item: item[0])]


def _passed(parts: Sequence[DevicePart], left: Sequence[Ints], bits: int) -> tuple[_SyncPoints, Ints]:
    """Pass over parts in the order of how many events they have; return their sync points, and the leads of all
    ends.
    """
    scenarios = np.asarray([of_part.shape[1] for of_part in left])
    longest, columns = parts[0].scan.events.count, int(scenarios.sum())
    sync_points = _SyncPoints.of(parts, left)
    ends = np.empty((longest + 1, columns), np.int64)
    ends[0] = _NO_END  # of the op that is not there: the lead of an event is a row further down
    host = np.zeros(columns, np.int64)
    since = 0
    while since < longest:
        # Devices all of whose events were passed over are the last ones.
        going = sum(part.scan.events.count > since for part in parts)
        width = int(scenarios[:going].sum())
        until = min(longest, since + max(1, _BLOCK_BYTES // (_BYTES_AN_EVENT * width)))
        block = _Block.of(parts[:going], scenarios[:going], since, until, columns, bits)
        _pass(block, since, host[:width], ends, sync_points)
        since = until
    return sync_points, ends


@dataclass(frozen=True)
class _SyncPoints:
    """The sync points of all columns by their position: those of one position next to each other."""

    before: list[int]  # how many there are before each position, and in all
    order: Ints  # of each, its place where parts come one after the other
    column: Ints
    left: Ints
    begun: Ints  # found by the pass

    @classmethod
    def of(cls, parts: Sequence[DevicePart], left: Sequence[Ints]) -> Self:
        """Order the sync points of parts, of which those with most events come first."""
        scenarios = [of_part.shape[1] for of_part in left]
        first = np.cumsum([0, *scenarios]).tolist()
        position = np.concatenate(
            [np.repeat(part.positions, width) for part, width in zip(parts, scenarios, strict=True)]
        )
        column = np.concatenate(
            [
                np.tile(np.arange(low, high), len(part.positions))
                for part, (low, high) in zip(parts, itertools.pairwise(first), strict=True)
            ]
        )
        order = np.argsort(position, kind="stable")
        before = np.searchsorted(position[order], np.arange(parts[0].scan.events.count + 1)).tolist()
        sorted_left = np.concatenate([of_part.ravel() for of_part in left])[order]
        return cls(before, order, column[order], sorted_left, np.zeros_like(sorted_left))

    def split(self, left: Sequence[Ints]) -> list[Ints]:
        """Return what was found for each part."""
        found = np.empty_like(self.begun)
        found[self.order] = self.begun
        edges = np.cumsum([of_part.size for of_part in left])[:-1]
        return [own.reshape(of_part.shape) for own, of_part in zip(np.split(found, edges), left, strict=True)]


class _Need(NamedTuple):
    """Ops beyond `pred1` and `pred2` that some columns wait for, one of each."""

    column: Ints
    at: Ints  # in the flat ends
    slack: Ints


class _Block(NamedTuple):
    """Consecutive events of all columns, which have a row for each position; `at` is where the lead of an op is."""

    gain: Ints
    slack: Ints  # of an op to the host; of a wait, how long the call itself waited
    limit: Ints
    at1: Ints
    slack1: Ints
    at2: Ints
    slack2: Ints
    by_host: Ints  # all bits where the host issued an op
    earlier: Ints
    shorter: Ints
    waits: Flags
    moves: Flags  # waits that are not removed
    more: dict[int, list[_Need]]

    @classmethod
    def of(cls, parts: Sequence[DevicePart], scenarios: Ints, since: int, until: int, columns: int, bits: int) -> Self:
        """Put the events between two positions side by side; `columns` is how many all parts have."""
        number = np.arange(scenarios.sum())
        events = [part.scan.events for part in parts]

        def of_events(column: Callable[[ScanEvents], NDArray[Any]], missing: int) -> NDArray[Any]:
            rows = _side_by_side([column(own)[since:until] for own in events], until - since, missing)
            return rows if len(rows[0]) == len(number) else np.repeat(rows, scenarios, axis=1)

        def shifted(column: Callable[[ScanEvents], Ints], missing: int = 0) -> Ints:
            values = of_events(column, missing)
            return np.where(values < NO_LIMIT, values << bits, values) if bits else values

        def of_changes(field: int) -> NDArray[Any]:
            arrays = [
                part.changes[scenario % len(part.changes)][field][since:until]
                for part, count in zip(parts, scenarios.tolist(), strict=True)
                for scenario in range(count)
            ]
            return _side_by_side(arrays, until - since, 0)

        waits = ~of_events(lambda own: own.is_op, 1)
        pred1, pred2 = of_events(lambda own: own.pred1, NO_ROW), of_events(lambda own: own.pred2, NO_ROW)
        slack1, slack2 = shifted(lambda own: own.pred1_slack_ns), shifted(lambda own: own.pred2_slack_ns)
        slack1[pred1 == NO_ROW] = _NO_SLACK
        slack2[(pred2 == NO_ROW) | waits] = _NO_SLACK
        slack = shifted(lambda own: own.host_slack_ns, NO_LIMIT)
        by_host = np.where(slack < NO_LIMIT, -1, 0)
        np.copyto(slack, shifted(lambda own: own.explained_wait_ns), where=waits)
        return cls(
            of_changes(0) << bits,
            slack,
            shifted(lambda own: own.lead_limit_ns, NO_LIMIT),
            (pred1 + 1) * columns + number,
            slack1,
            (pred2 + 1) * columns + number,
            slack2,
            by_host,
            of_changes(2) << bits,
            of_changes(3) << bits,
            waits,
            waits & ~of_changes(1),
            _more(parts, scenarios, since, until, columns, bits),
        )


def _side_by_side(arrays: Sequence[NDArray[Any]], count: int, missing: int) -> NDArray[Any]:
    rows = np.full((count, len(arrays)), missing, arrays[0].dtype)
    for at, own in enumerate(arrays):
        rows[: len(own), at] = own
    return rows


def _more(
    parts: Sequence[DevicePart], scenarios: Ints, since: int, until: int, columns: int, bits: int
) -> dict[int, list[_Need]]:
    """Return the further needs of events, by their position."""
    rows: dict[tuple[int, int], list[tuple[int, int, int]]] = {}
    first = 0
    for part, width in zip(parts, scenarios.tolist(), strict=True):
        events = part.scan.events
        for position in events.with_more:
            if since <= position < until and events.is_op[position]:
                for nth, (before, slack) in enumerate(events.more[position]):
                    for column in range(first, first + width):
                        need = (column, (before + 1) * columns + column, slack << bits)
                        rows.setdefault((position, nth), []).append(need)
        first += width
    more: dict[int, list[_Need]] = {}
    for (position, _), needs in sorted(rows.items()):
        more.setdefault(position, []).append(_Need(*np.asarray(needs).T))
    return more


def _pass(block: _Block, since: int, host: Ints, ends: Ints, sync_points: _SyncPoints) -> None:
    """Pass over the events of a block; `walk` says what happens to the lead of the host and of each event."""
    flat, width = ends.ravel(), len(host)
    before1, before2, lead, most, room = np.empty((5, width), np.int64)
    add, least, greatest = np.add, np.minimum, np.maximum
    has_gain, is_earlier, is_shorter = _some(block.gain), _some(block.earlier), _some(block.shorter)
    has_wait, has_op = _some(block.waits), _some(~block.waits)
    has_second = _some(block.at2 >= len(ends[0]))
    for at, has_2nd in enumerate(has_second):
        position, end = since + at, ends[since + at + 1, :width]
        if has_gain[at]:
            add(host, block.gain[at], out=host)
        flat.take(block.at1[at], out=before1, mode="clip")
        add(before1, block.slack1[at], out=lead)
        least(lead, block.limit[at], out=lead)
        least(lead, add(host, block.slack[at], out=room), out=lead)
        if has_2nd:
            flat.take(block.at2[at], out=before2, mode="clip")
            least(lead, add(before2, block.slack2[at], out=room), out=lead)
        first, last = sync_points.before[position : position + 2]
        if has_op[at]:
            np.bitwise_and(host, block.by_host[at], out=most)
            greatest(most, before1, out=most)
            if has_2nd:
                greatest(most, before2, out=most)
            for column, need, slack in block.more.get(position, ()):
                ahead = flat[need]
                lead[column] = least(lead[column], ahead + slack)
                most[column] = greatest(most[column], ahead)
            least(lead, most, out=most)
            if is_earlier[at]:
                add(most, block.earlier[at], out=most)
            if first < last:
                sync_points.begun[first:last] = most[sync_points.column[first:last]]
            add(most, block.shorter[at], out=end) if is_shorter[at] else np.copyto(end, most)
        if has_wait[at]:
            np.copyto(host, lead, where=block.moves[at])
            np.copyto(end, greatest(host, before2, out=room) if has_2nd else host, where=block.waits[at])
        if first < last:
            end[sync_points.column[first:last]] = sync_points.left[first:last]


def _some(rows: NDArray[Any]) -> list[bool]:
    """Return for each row whether some value is not 0."""
    found: Flags = np.any(rows, axis=1)
    return [bool(some) for some in found]
