"""What removing causes saves on one device: its scan, measured at both ends of its analysis window."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np

from traceanalyzer.attribution.lead_scan.scan import LOADER_WORKERS, Scan, WhatIf
from traceanalyzer.attribution.lead_scan.stored_scans import ScanFacts
from traceanalyzer.attribution.vocabulary.buckets import Ints


@dataclass(frozen=True)
class WindowSaving:
    """What a what-if saves of a window, and how much earlier the window then begins.

    Removing more never delays anything, but it can move only the start of the window, which makes the window longer:
    for example, where the window begins with a copy that its first step waits for and later steps hide.
    """

    saved_ns: int
    begins_earlier_ns: int


@dataclass(frozen=True)
class DeviceBounds:
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
        return replace(self, load=lambda: _at_worst(self.load(), uncertainty))

    def savings(self, what_ifs: Sequence[WhatIf]) -> list[WindowSaving]:
        """Return what each what-if saves, and how much earlier the window begins in it."""
        if not what_ifs or not self.facts.event_count:
            return [WindowSaving(0, 0)] * len(what_ifs)
        scan, window = self.scan, self.window
        scale, first_op, measure_at_op = (window[name] for name in ("measure_scale", "first_op_id", "measure_at_op_id"))
        leads = scan.leads(what_ifs)
        first = np.zeros(len(what_ifs), np.int64)
        if first_op is not None:
            first = leads.start(scan.position_of[first_op])
        if measure_at_op is None:
            saved = self._ends_earlier(leads.end) - first
        else:
            saved = (leads.start(scan.position_of[measure_at_op]) - first) * scale
        # A what-if saves no more than it takes out of the window, however much lead it has from before the window.
        limits = [
            min(self._limit(what_if), round(taken * scale))
            for what_if, taken in zip(what_ifs, leads.taken, strict=True)
        ]
        savings = zip(saved.tolist(), (first * scale).tolist(), limits, strict=True)
        return [WindowSaving(min(max(int(ns), 0), limit), int(earlier_ns)) for ns, earlier_ns, limit in savings]

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
        (saved,) = self._ends_earlier(leads[:, None])
        return min(max(int(saved), 0), self._limit(what_if))

    def _ends_earlier(self, leads: Ints) -> Ints:
        """Return by how much the last op ends earlier, where events (rows) do; one answer per column."""
        scan = self.scan
        last = scan.end[scan.is_op]
        saved: Ints = last.max() - (last[:, None] - leads[scan.is_op]).max(axis=0)
        return saved

    def _limit(self, what_if: WhatIf) -> int:
        """Return the most that a what-if can save: the busiest compute stream's idle time, and what ops get shorter.

        Streams that took turns may run at once, but no stream gets faster than its own work.
        """
        savings = (what_if.savings or {}).values()
        shorter = int(np.maximum(np.fromiter(savings, np.int64, len(savings)), 0).sum())
        return min(self.window_ns, self.window_ns - int(self.window["busiest_stream_ns"]) + shorter)


def _at_worst(scan: Scan, uncertainty: str) -> Scan:
    return scan.with_slow_workers if uncertainty == LOADER_WORKERS else scan.with_possible_waits
