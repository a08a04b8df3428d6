"""A DataLoader's workers: they prepare batches ahead of the training thread, as many as they may prefetch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from traceanalyzer.simulator.recording import FIRST_WORKER, PIN_THREAD
from traceanalyzer.simulator.tape import Tape


@dataclass
class LoaderWorkers:
    """Batches go to the workers in turn; a batch is handed out when one that was handed out before is taken.

    `batch_ns` returns how long a worker takes for a batch, by its number. A pin-memory thread copies one batch after
    the other where `pin_ns` is set.
    """

    count: int
    prefetch: int
    batch_ns: Callable[[int], int]
    pin_ns: int
    tape: Tape
    _taken_ns: list[int] = field(default_factory=list)
    _free_ns: dict[int, int] = field(default_factory=dict)
    _pinned_ns: int = 0

    def take(self, now_ns: int) -> int:
        """Return when the next batch is there for one who asks now."""
        batch = len(self._taken_ns)
        worker = batch % self.count
        ahead = batch - max(1, self.prefetch) * self.count
        free_ns = self._free_ns.get(worker, 0)
        start_ns = max(free_ns, self._taken_ns[ahead] if ahead >= 0 else 0)
        self.tape.aside("os", "poll", FIRST_WORKER + worker, free_ns, start_ns)
        ready_ns = self._free_ns[worker] = start_ns + self.batch_ns(batch)
        if self.pin_ns:
            begin_ns = max(ready_ns, self._pinned_ns)
            ready_ns = self._pinned_ns = begin_ns + self.pin_ns
            self.tape.aside("runtime", "cudaHostAlloc", PIN_THREAD, begin_ns, ready_ns)
        self._taken_ns.append(max(now_ns, ready_ns))
        return ready_ns
