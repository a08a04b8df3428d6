"""The workers of a DataLoader, which prepare batches ahead of the training thread, up to the prefetch limit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tracesim.catalogue.recording import FIRST_WORKER, PIN_THREAD
from tracesim.machine.tape import Tape


@dataclass
class LoaderWorkers:
    """Workers that get batches in turn; each further batch is handed out when an earlier one is taken.

    `batch_ns` returns how long a worker takes for a batch, by its number. If `pin_ns` is set, a pin-memory thread
    copies the batches one after the other.
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
        """Take the next batch, and return when it is ready."""
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
