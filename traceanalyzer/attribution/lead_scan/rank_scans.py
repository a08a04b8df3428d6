"""The scans of a run's devices, by their number, and what is asked of many of them at once.

Each question needs the scans of its devices and nothing of the others, so that any process that can read them answers
it as well as this one (`opening.screening`).
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from traceanalyzer.attribution.lead_scan.abreast import DevicePart, ends
from traceanalyzer.attribution.lead_scan.contraction import PASSES, Arrivals, Arrived, arrivals, contract
from traceanalyzer.attribution.lead_scan.device_bounds import ScanFacts, WindowSaving, whole_savings, window_savings
from traceanalyzer.attribution.lead_scan.scan import Scan, WhatIf
from traceanalyzer.attribution.lead_scan.stored_scans import StoredScans
from traceanalyzer.attribution.vocabulary.buckets import Ints

# The leads of a pass over the events of several scans, of 8 bytes each.
_GROUP_LEADS = 1 << 24


class Asked(NamedTuple):
    """What is asked of one scan: the what-ifs there, and the positions of its meetings, where they matter."""

    scan: int
    what_ifs: Sequence[WhatIf] = ()
    positions: Sequence[int] = ()


class RankScans:
    """Answers questions about many scans in this process: one after the other, or many abreast."""

    def __init__(self, scan_of: Callable[[int], Scan], window_of: Callable[[int], Mapping[str, Any]]) -> None:
        """Take what returns the scan of a device, by its number, and its row of the table `windows`."""
        self.scan_of = scan_of
        self.window_of = window_of

    def at_worst(self, uncertainty: str) -> RankScans:
        """Return the scans if an uncertainty turns out against fixes."""
        return RankScans(lambda number: self.scan_of(number).at_worst(uncertainty), self.window_of)

    def facts(self, asked: Sequence[Asked]) -> Iterator[ScanFacts]:
        """Return what is asked again and again of each scan."""
        for item in asked:
            yield ScanFacts.of_scan(self.scan_of(item.scan), self.window_of(item.scan))

    def savings(self, asked: Sequence[Asked]) -> Iterator[list[WindowSaving]]:
        """Return what the what-ifs save of each device's window, if nothing changes elsewhere."""
        for item in asked:
            yield window_savings(self.scan_of(item.scan), self.window_of(item.scan), item.what_ifs)

    def taken(self, asked: Sequence[Asked]) -> Iterator[list[int]]:
        """Return how many ns of host and ops the what-ifs take out of each device's window."""
        for item in asked:
            scan = self.scan_of(item.scan)
            yield [scan.taken_ns(scan.changes(what_if)) for what_if in item.what_ifs]

    def contract(self, asked: Sequence[Asked]) -> Iterator[Arrivals]:
        """Return the contraction of each scan that is asked."""
        found = (
            (piece.nth, answer)
            for pieces in self._in_groups(asked, PASSES)
            for piece, answer in zip(pieces, contract([piece.part for piece in pieces]), strict=True)
        )
        for _, of_one in itertools.groupby(found, key=itemgetter(0)):
            columns = zip(*(answer.arrays for _, answer in of_one), strict=True)
            yield Arrivals(*map(_joined, columns))

    def arrivals(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each scan that is asked arrives at its meetings, given the leads of these."""
        found = (
            (piece.nth, answer)
            for pieces in self._in_groups(asked, 1)
            for piece, answer in zip(pieces, _arrived(pieces, leads), strict=True)
        )
        for _, of_one in itertools.groupby(found, key=itemgetter(0)):
            yield Arrived(*map(_joined, zip(*(answer for _, answer in of_one), strict=True)))

    def whole_savings(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[list[int]]:
        """Return what each device's window, which is all of its scan, loses, given the leads of its meetings."""
        found = (
            (piece.nth, self._whole_savings(asked[piece.nth], piece, of_piece))
            for pieces in self._in_groups(asked, 1)
            for piece, of_piece in zip(
                pieces, ends([piece.part for piece in pieces], _left(pieces, leads)), strict=True
            )
        )
        for _, of_one in itertools.groupby(found, key=itemgetter(0)):
            yield [saved_ns for _, saved in of_one for saved_ns in saved]

    def _whole_savings(self, item: Asked, piece: _Piece, leads: Ints) -> list[int]:
        what_ifs = item.what_ifs[piece.first : piece.first + leads.shape[1]]
        return whole_savings(piece.part.scan, self.window_of(item.scan), leads, what_ifs)

    def _in_groups(self, asked: Sequence[Asked], passes: int) -> Iterator[list[_Piece]]:
        """Yield what-ifs of scans in groups that one pass can hold; a scan with many what-ifs is in several.

        Each what-if takes `passes` columns.
        """
        group: list[_Piece] = []
        columns = longest = 0
        for nth, item in enumerate(asked):
            scan = self.scan_of(item.scan)
            count = max(1, scan.events.count)
            at_once = max(1, _GROUP_LEADS // (count * passes))
            for first in range(0, len(item.what_ifs), at_once):
                what_ifs = item.what_ifs[first : first + at_once]
                width = passes * len(what_ifs)
                if group and (columns + width) * max(longest, count) > _GROUP_LEADS:
                    yield group
                    group, columns, longest = [], 0, 0
                changes = [scan.changes(what_if) for what_if in what_ifs]
                group.append(_Piece(nth, first, DevicePart(scan, item.positions, changes)))
                columns, longest = columns + width, max(longest, count)
        if group:
            yield group


def scans_in(stored: StoredScans, windows: Sequence[Mapping[str, Any]]) -> RankScans:
    """Return the stored scans of the devices that have these rows of `windows`."""
    return RankScans(partial(_stored_scan, stored, windows), windows.__getitem__)


def _stored_scan(stored: StoredScans, windows: Sequence[Mapping[str, Any]], number: int) -> Scan:
    window = windows[number]
    return stored.scan((window["trace_id"], window["device"]), window)


class _Piece(NamedTuple):
    """Some what-ifs, from `first` on, of the scan that is asked as the `nth`."""

    nth: int
    first: int
    part: DevicePart


def _arrived(pieces: Sequence[_Piece], leads: Sequence[Ints]) -> list[Arrived]:
    return arrivals([piece.part for piece in pieces], _left(pieces, leads))


def _left(pieces: Sequence[_Piece], leads: Sequence[Ints]) -> list[Ints]:
    return [leads[nth][:, first : first + len(part.changes)] for nth, first, part in pieces]


def _joined(parts: Sequence[NDArray[Any]]) -> NDArray[Any]:
    return parts[0] if len(parts) == 1 else np.concatenate(parts, axis=-1)
