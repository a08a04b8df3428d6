"""What removing causes saves of a run, whose ranks wait for each other in collectives."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import NamedTuple, Self

import numpy as np
from msgspec import Struct
from msgspec.structs import replace
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import STRAGGLER_WAIT, DeviceKey, Ints
from traceanalyzer.attribution.replay.all_ranks import JointScan, ReducedRun
from traceanalyzer.attribution.replay.device_bounds import DeviceBounds, ScanQuery, whole_savings
from traceanalyzer.attribution.replay.scan import WhatIf


class RunBound(Struct, frozen=True):
    """What a what-if saves of a run, which takes as long as its slowest rank, and of each of its devices.

    Of many ranks that could not be shown to be exact (see `ReducedRun`), these are the most that is saved, and
    `least` is the least.
    """

    saved_ns: int
    window_ns: int  # of the slowest device
    devices: Mapping[DeviceKey, int]
    least: Self | None = None

    @property
    def open_ns(self) -> int:
        """How much less may be saved."""
        return 0 if self.least is None else self.saved_ns - self.least.saved_ns


class _Gain(NamedTuple):
    """How much closer the collectives are between which a window is measured: at most, and how much less it may be."""

    most_ns: int
    open_ns: int = 0


class WholeRun(Struct, frozen=True, dict=True):
    """All devices of a run together, and what each what-if saves of it."""

    devices: Mapping[DeviceKey, DeviceBounds]
    together: JointScan | ReducedRun
    device_keys: tuple[DeviceKey, ...]  # of the scans of `together`

    def of_each(self, queries: Sequence[Mapping[DeviceKey, WhatIf]]) -> list[RunBound]:
        """Return what the run saves with each mapping, which has a what-if for some devices or all."""
        of_devices = [[what_ifs.get(device_key, WhatIf()) for device_key in self.device_keys] for what_ifs in queries]
        return [*map(self._of_run, self._gains(of_devices))] if queries else []

    def _gains(self, queries: Sequence[Sequence[WhatIf]]) -> list[list[_Gain]]:
        """Return for each question how much each device gains between the collectives of its measurement.

        A device that is not measured between collectives gains what it saves alone, or, as far as its window ends with
        all that was recorded, what the others let it.
        """
        if isinstance(self.together, ReducedRun):
            return self._reduced_gains(self.together, queries)
        if not self.together.sync_points:
            return [[*map(self._gain_alone, self.device_keys, what_ifs)] for what_ifs in queries]
        return [
            [
                self._gain(at, *of_device)
                for at, of_device in enumerate(zip(self.together.shifts(what_ifs), what_ifs, strict=True))
            ]
            for what_ifs in queries
        ]

    def _gain(self, at: int, shifts: Ints | None, what_if: WhatIf) -> _Gain:
        device_key, sync_points = self.device_keys[at], self.together.sync_points.positions[at]
        between = self._measured_between[device_key]
        device = self.devices[device_key]
        if between is None and not device.is_whole:
            return self._gain_alone(device_key, what_if)
        if shifts is None:
            return _Gain(0)
        if between is not None:
            first, last = between
            return _Gain(int(shifts[last]) - (0 if first is None else int(shifts[first])))
        # The kernels of a straggler that is no longer late are as long as before here: only its sync points are
        # earlier.
        if STRAGGLER_WAIT in what_if.removed and sync_points:
            return _Gain(min(int(shifts[sync_points[-1]]), device.window_ns))
        return _Gain(*whole_savings(device.scan, device.window, shifts[:, None], [what_if]))

    def _gain_alone(self, device_key: DeviceKey, what_if: WhatIf) -> _Gain:
        return _Gain(0 if what_if == WhatIf() else self.devices[device_key].savings([what_if])[0])

    def _reduced_gains(self, together: ReducedRun, queries: Sequence[Sequence[WhatIf]]) -> list[list[_Gain]]:
        """Return what `_gains` does of a run whose devices are reduced."""
        measured: dict[int, list[int]] = {}  # numbers of calls, by device
        whole: dict[int, list[int]] = {}
        for at, device_key in enumerate(self.device_keys):
            low, high = together.sync_points.first[at : at + 2].tolist()
            if (between := self._measured_between[device_key]) is not None:
                measured[at] = [
                    low + together.sync_points.positions[at].index(item) for item in between if item is not None
                ]
            elif together.sync_points and self.devices[device_key].is_whole:
                whole[at] = [*range(low, high)]
        gains = np.zeros((2, len(self.device_keys), len(queries)), np.int64)
        of_devices = [*zip(*queries, strict=True)]
        alone = [
            ScanQuery(at, of_devices[at]) for at in range(len(of_devices)) if at not in measured and at not in whole
        ]
        for item, savings in zip(alone, together.scans.savings(alone), strict=True):
            gains[0, item.scan] = savings
        if not measured and not whole:
            return _gains_of(gains)
        calls = [*measured.values(), *whole.values()]
        found = together.shifts(queries, np.asarray([*itertools.chain.from_iterable(calls)], np.int64))
        edges = np.cumsum([len(of_one) for of_one in calls])[:-1]
        shifts = dict(zip([*measured, *whole], np.split(found.shift_ns, edges), strict=True))
        off = dict(zip([*measured, *whole], np.split(found.off_ns, edges), strict=True))
        for at, of_one in measured.items():
            gains[0, at] = shifts[at][-1] + off[at][-1]
            gains[1, at] = 2 * off[at][-1]
            if len(of_one) == 2:
                gains[0, at] -= shifts[at][0] - off[at][0]
                gains[1, at] += 2 * off[at][0]
        of_whole = [ScanQuery(at, of_devices[at], together.sync_points.positions[at]) for at in whole]
        savings_ns = together.scans.whole_savings(of_whole, [shifts[at] for at in whole]) if whole else ()
        for item, saved_ns in zip(of_whole, savings_ns, strict=True):
            self._fill_whole(gains[:, item.scan], item, saved_ns, shifts[item.scan], off[item.scan])
        return _gains_of(gains)

    def _fill_whole(self, gains: Ints, item: ScanQuery, saved_ns: Sequence[int], shifts: Ints, off: Ints) -> None:
        """Write what a window that is all of a scan loses in each what-if, at most, and how much less it may be."""
        gains[0] = saved_ns
        if not len(shifts):
            return
        window_ns = self.devices[self.device_keys[item.scan]].window_ns
        is_even = np.asarray([STRAGGLER_WAIT in what_if.removed for what_if in item.what_ifs])
        gains[0] = np.where(is_even, np.minimum(shifts[-1], window_ns), saved_ns)
        # What ends with the window ends no earlier and no later than by what the sync points before it are off.
        most_off = np.where(is_even, off[-1], off.max(axis=0))
        gains[0] = np.minimum(gains[0] + most_off, window_ns)
        gains[1] = 2 * most_off

    @cached_property
    def most_alone_ns(self) -> Ints:
        """A limit of what the run can save by changes on one device alone, by device, found without a scan.

        No other device ends earlier than its waits for this one allow, and the run ends with the last.
        """
        windows_ns = np.asarray([self.devices[device_key].window_ns for device_key in self.device_keys])
        stretches = np.asarray([self._stretch(device_key) for device_key in self.device_keys])
        if isinstance(self.together, ReducedRun):
            return _most_alone(windows_ns, stretches, self.together.most_by_one)
        stretches = stretches[:, None]
        left_ns = windows_ns[:, None] - np.ceil(self.together.most_by_others * stretches)
        np.fill_diagonal(left_ns, 0)
        limits: Ints = (windows_ns.max() - left_ns.max(axis=0)).astype(np.int64)
        return limits

    @cached_property
    def _measured_between(self) -> dict[DeviceKey, tuple[int | None, int] | None]:
        """By device: the positions of the collectives between which its saving is measured."""
        return {
            device_key: _between(self.devices[device_key], self.together.sync_points.positions[i])
            for i, device_key in enumerate(self.device_keys)
        }

    def _stretch(self, device_key: DeviceKey) -> float:
        """Return what a shift between the collectives of a device's measurement is of its window."""
        between = self._measured_between[device_key]
        if between is None:
            return 1.0
        return self.devices[device_key].window_ns / self._measured_ns(device_key, between)

    def _measured_ns(self, device_key: DeviceKey, between: tuple[int | None, int]) -> int:
        first, last = between
        ends = self.devices[device_key].facts.end_at
        # A window that begins ahead of its first op begins where it does, whatever is removed.
        begun_ns = int(self.devices[device_key].window["start_ns"]) if first is None else ends[first]
        return ends[last] - begun_ns

    def _of_run(self, gains: Sequence[_Gain]) -> RunBound:
        """Return what the run saves, from the gain of each device."""
        saved, least, lengths = {}, {}, {}
        for i, device_key in enumerate(self.device_keys):
            between = self._measured_between[device_key]
            window_ns = self.devices[device_key].window_ns
            lengths[device_key] = window_ns
            if between is None:
                saved[device_key], least[device_key] = gains[i].most_ns, max(0, gains[i].most_ns - gains[i].open_ns)
                continue
            measured_ns, gain = self._measured_ns(device_key, between), gains[i]
            saved[device_key] = min(max(0, round(gain.most_ns * window_ns / measured_ns)), window_ns)
            at_least = min(max(0, round((gain.most_ns - gain.open_ns) * window_ns / measured_ns)), window_ns)
            least[device_key] = saved[device_key] if not gain.open_ns else at_least
        most = _run_bound(lengths, saved)
        return most if least == saved else replace(most, least=_run_bound(lengths, least))


def _gains_of(gains_ns: Ints) -> list[list[_Gain]]:
    """Return the gains of each question (last axis) and device (middle axis)."""
    return [[_Gain(*pair) for pair in of_one.T.tolist()] for of_one in np.moveaxis(gains_ns, -1, 0)]


def _run_bound(lengths: Mapping[DeviceKey, int], saved: Mapping[DeviceKey, int]) -> RunBound:
    longest = max(lengths.values(), default=0)
    left = max((lengths[device_key] - saved[device_key] for device_key in lengths), default=0)
    return RunBound(longest - left, longest, saved)


def _most_alone(windows_ns: Ints, stretches: NDArray[np.float64], most_by_one: Ints) -> Ints:
    """Return by device how much sooner the run ends at most where the changes of one give others no more than this."""
    limits = np.zeros(len(windows_ns), np.int64)
    others = np.arange(len(windows_ns))
    for at in np.flatnonzero(most_by_one).tolist():
        left_ns = windows_ns - np.ceil(most_by_one[at] * stretches).astype(np.int64)
        limits[at] = windows_ns.max() - left_ns[others != at].max(initial=0)
    # Without any gain of others, the run is as long as the longest of them.
    longest = np.partition(windows_ns, -2)[-2] if len(windows_ns) > 1 else 0
    alone = (most_by_one == 0) & (windows_ns == windows_ns.max())
    limits[alone] = np.maximum(0, windows_ns.max() - longest)
    return limits


def _between(device: DeviceBounds, sync_points: list[int]) -> tuple[int | None, int] | None:
    """Return the last collectives before the window and within it; None: there are no two.

    Ranks leave a collective together. The first kernel of a step, in contrast, also depends on how far its rank had run
    ahead.
    A window that begins ahead of its first op has no collective to begin with.
    """
    facts, ends = device.facts, device.facts.end_at
    opens, closes = facts.opens_at, facts.closes_at
    if opens is None or len(sync_points) < 2:
        return None
    # Compared in launch order: what a step receives first may arrive before its first kernel.
    before = [position for position in sync_points if position < opens]
    within = [position for position in sync_points if closes is None or position < closes]
    last = within[-1] if within else sync_points[0]
    if facts.only_in_window and device.window["first_op_id"] is None:
        return (None, last) if ends[last] > device.window["start_ns"] else None
    first = before[-1] if before else sync_points[0]
    return (first, last) if ends[last] > ends[first] else None
