"""Who is to blame for what compute has missed so far: the truth that a ledger is held against."""

from __future__ import annotations

from collections import Counter
from typing import Any

from traceanalyzer.simulator.truth import host_blame


class Lateness:
    """What the issuing thread did since the last compute kernel was launched, cause by cause."""

    def __init__(self) -> None:
        self._by_cause: Counter[str] = Counter()
        self._blocked_ns = 0
        self._settled: Counter[str] = Counter()  # blame for what compute has missed up to the last wait
        self._compute_end_ns = 0

    def add(self, cause: str, dur_ns: int) -> None:
        """Count host time to a cause."""
        self._by_cause[cause] += dur_ns

    def begin_wait(self, now_ns: int) -> bool:
        """Forget what made the host late if compute still runs: without it the wait would only have been longer."""
        hidden = self._compute_end_ns > now_ns
        if hidden:
            self._by_cause.clear()
        return hidden

    def waited(self, begin_ns: int, end_ns: int) -> None:
        """Settle what compute misses while the host waits for the device."""
        missed_ns = min(end_ns - begin_ns, max(0, end_ns - self._compute_end_ns))
        if missed_ns:
            late_ns = max(0, begin_ns - self._compute_end_ns) - sum(self._settled.values())
            self._settled.update(host_blame(self._by_cause, self._blocked_ns, late_ns))
            self._settled["host.sync"] += missed_ns
            self._by_cause.clear()
            self._blocked_ns = 0
        self._blocked_ns += end_ns - begin_ns - missed_ns

    def so_far(self) -> dict[str, Any]:
        """Return what an op is launched with, by the names of its fields."""
        return {"lateness": dict(self._by_cause), "blocked_ns": self._blocked_ns, "settled": dict(self._settled)}

    def launched_compute(self, end_ns: int) -> None:
        """Begin anew: compute runs until then, at least."""
        self._by_cause.clear()
        self._blocked_ns = 0
        self._settled.clear()
        self._compute_end_ns = max(self._compute_end_ns, end_ns)
