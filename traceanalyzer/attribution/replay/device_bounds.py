"""What removing causes saves on one device: its scan, measured at both ends of its analysis window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Self

from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.attribution.replay.kernel import replay_alone
from traceanalyzer.attribution.replay.scan import LOADER_WORKERS, STREAM_WAITS, Scan, WhatIf
from traceanalyzer.attribution.replay.sync_points import RankCalls


class ScanFacts(Struct, frozen=True, dict=True):
    """What is asked of a device's scan again and again, so that it need not be read for it."""

    causes: frozenset[str]
    taken_ns: Mapping[str, int]  # by cause: its time in the window
    event_count: int
    calls: RankCalls
    opens_at: int | None  # position of the first op of the window's steps
    closes_at: int | None  # position of the first op after them
    only_in_window: bool
    waits_for_workers: bool
    uncertainties: frozenset[str]  # what the trace leaves open about it

    @classmethod
    def of_scan(cls, scan: Scan, window: Mapping[str, Any]) -> Self:
        opens, closes = (
            None if window[name] is None else scan.position_of.get(window[name])
            for name in ("opening_op_id", "closing_op_id")
        )
        uncertain = {LOADER_WORKERS: scan.has_takes, STREAM_WAITS: bool(scan.possible)}
        causes = scan.causes()
        return cls(
            causes,
            {cause: scan.taken_ns(scan.changes(WhatIf(frozenset({cause})))) for cause in causes},
            scan.events.count,
            RankCalls.of_scan(scan),
            opens,
            closes,
            scan.only_in_window,
            scan.waits_for_workers,
            frozenset(name for name, applies in uncertain.items() if applies),
        )

    @cached_property
    def end_at(self) -> dict[int, int]:
        """The end of each of its collectives and messages, by position."""
        return dict(zip(self.calls.position.tolist(), self.calls.end_ns.tolist(), strict=True))


class WindowSaving(Struct, frozen=True):
    """What a what-if saves of a window, and how much earlier the window then begins.

    Removing more never delays anything, but it can move only the start of the window, which makes the window longer:
    for example, where the window begins with a copy that its first step waits for and later steps hide.
    """

    saved_ns: int
    begins_earlier_ns: int


class DeviceBounds(Struct, frozen=True):
    """A device, its analysis window and its scan, which say what a what-if saves there."""

    window: Mapping[str, Any]  # its row of the table `windows`
    facts: ScanFacts
    load: Callable[[], Scan]

    @property
    def scan(self) -> Scan:
        """The device's scan: held, or read when it is asked."""
        return self.load()

    @property
    def window_ns(self) -> int:
        """The length of its window."""
        return int(self.window["window_ns"])

    @property
    def abstains(self) -> str | None:
        """Why its bounds cannot be trusted."""
        reason: str | None = self.window["bound_abstains"]
        return reason

    def at_worst(self, uncertainty: str) -> Self:
        """Return the device if an uncertainty turns out against its fixes; this one if it does not apply."""
        if uncertainty not in self.facts.uncertainties:
            return self
        return replace(self, load=lambda: self.load().at_worst(uncertainty))

    def savings(self, what_ifs: Sequence[WhatIf]) -> list[WindowSaving]:
        """Return what each what-if saves, and how much earlier the window begins in it."""
        return window_savings(self.scan, self.window, what_ifs) if what_ifs else []

    def taken_ns(self, what_if: WhatIf) -> int:
        """Return the time of host and ops in the window that a what-if takes out, even if that saves nothing."""
        if what_if == WhatIf(what_if.removed):  # Causes take out no time of each other.
            return sum(self.facts.taken_ns.get(cause, 0) for cause in what_if.removed)
        scan = self.scan
        return scan.taken_ns(scan.changes(what_if))

    @property
    def is_whole(self) -> bool:
        """Whether the window is all that was recorded, and ends with the last op."""
        return self.window["first_op_id"] is None and self.window["measure_at_op_id"] is None

    def whole_saving_ns(self, leads: Ints, what_if: WhatIf) -> int:
        """Return what a whole window loses where each event ends so much earlier, as other devices allow."""
        (saved_ns,) = whole_savings(self.scan, self.window, leads[:, None], [what_if])
        return saved_ns


def window_savings(scan: Scan, window: Mapping[str, Any], what_ifs: Sequence[WhatIf]) -> list[WindowSaving]:
    """Return what each what-if saves of a device's window (its row of `windows`), and how much earlier that begins."""
    if not what_ifs or not scan.events.count:
        return [WindowSaving(0, 0)] * len(what_ifs)
    scale, first_op, measure_at_op = (window[name] for name in ("measure_scale", "first_op_id", "measure_at_op_id"))
    savings = []
    for what_if in what_ifs:
        changes = scan.changes(what_if)
        ends = replay_alone(scan.events, changes)
        first, last = (
            0 if op is None else int(ends[at := scan.position_of[op]] - changes.shorter_ns[at])
            for op in (first_op, measure_at_op)
        )
        until_end = measure_at_op is None
        saved = int(_ends_earlier(scan, ends[:, None])[0]) - first if until_end else (last - first) * scale
        # A what-if saves no more than it takes out of the window, however much lead it has from before the window.
        limit = min(_limit(scan, window, what_if), round(scan.taken_ns(changes) * scale))
        savings.append(WindowSaving(min(max(int(saved), 0), limit), int(first * scale)))
    return savings


def whole_savings(scan: Scan, window: Mapping[str, Any], leads: Ints, what_ifs: Sequence[WhatIf]) -> list[int]:
    """Return what a window that is all of a scan loses in each what-if (column), where each event ends so much earlier.

    `window` is its row of `windows`.
    """
    saved = _ends_earlier(scan, leads).tolist()
    return [min(max(ns, 0), _limit(scan, window, what_if)) for ns, what_if in zip(saved, what_ifs, strict=True)]


def _ends_earlier(scan: Scan, leads: Ints) -> Ints:
    """Return by how much the last op ends earlier, where events (rows) do; one answer per column."""
    last = scan.end[scan.is_op]
    saved: Ints = last.max() - (last[:, None] - leads[scan.is_op]).max(axis=0)
    return saved


def _limit(scan: Scan, window: Mapping[str, Any], what_if: WhatIf) -> int:
    """Return the most that a what-if can save: the idle time of the busiest engine, and what its ops get shorter.

    Streams that took turns may run at once, but no stream gets faster than its own work, the blocks of all kernels
    share the device's SMs, and the copies in one direction share the link.
    """
    shorter = scan.shorter_ns(what_if.savings or {})
    window_ns = int(window["window_ns"])
    compute_ns = max(int(window["busiest_stream_ns"]), int(window["full_device_ns"]))
    needed = [compute_ns - shorter.get(None, 0)]
    for cause, column in (("dev.h2d", "h2d_ns"), ("dev.d2h", "d2h_ns")):
        if cause not in what_if.removed:
            needed.append(int(window[column]) - shorter.get(cause, 0))
    return window_ns - max(0, *needed)
