"""The host's clock and what profilers write down while it runs: slices, ids, allocator events."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from tracesim.catalogue.recording import MAIN_THREAD, OVERHEAD_THREAD, HostSlice, MemoryRecord


@dataclass(frozen=True, slots=True)
class _Open:
    thread: int
    category: str
    external_id: int | None
    name: str
    args: Mapping[str, Any]


class Tape:
    """Records in virtual time; one clock suffices, because one host thread issues at a time.

    Threads beside it (loader workers, the pin-memory thread) are written down by those who know their times.
    """

    def __init__(self) -> None:
        self.now_ns = 0
        self.thread = MAIN_THREAD
        self.memory: list[MemoryRecord] = []
        self.cached_bytes = 0  # reserved and in use by nothing
        self._slices: list[HostSlice] = []
        self._open: list[_Open] = []
        self._order = 0
        self._correlation = 1000
        self._external_id = 0
        self._sequence = 0
        self._allocated_bytes = 0

    @contextmanager
    def slice(self, category: str, name: str, **fields: Any) -> Iterator[None]:
        """Record an interval of the current thread around what runs inside; operators and annotations get an id."""
        external_id = None
        if category in ("cpu_op", "annotation"):
            self._external_id += 1
            external_id = self._external_id
        order, thread, start_ns = self.reserve(), self.thread, self.now_ns
        self._open.append(_Open(thread, category, external_id, name, fields.get("args", {})))
        yield
        self._open.pop()
        self._slices.append(
            HostSlice(order, thread, category, name, start_ns, self.now_ns, external_id=external_id, **fields)
        )

    @contextmanager
    def on_thread(self, thread: int) -> Iterator[None]:
        """Hand over to another thread, and back when it is done."""
        previous, self.thread = self.thread, thread
        yield
        self.thread = previous

    def call(self, name: str, start_ns: int, order: int | None = None, return_value: int = 0) -> int:
        """Record a runtime call that ends now; returns its correlation."""
        self._correlation += 1
        order = self.reserve() if order is None else order
        self._slices.append(
            HostSlice(
                order,
                self.thread,
                "runtime",
                name,
                start_ns,
                self.now_ns,
                correlation=self._correlation,
                external_id=self.external_id,
                return_value=return_value,
            )
        )
        return self._correlation

    def aside(self, category: str, name: str, thread: int, start_ns: int, end_ns: int) -> None:
        """Record an interval of a thread that runs beside the issuing one."""
        if end_ns > start_ns:
            correlation = None
            if category == "runtime":
                self._correlation += 1
                correlation = self._correlation
            self._slices.append(
                HostSlice(self.reserve(), thread, category, name, start_ns, end_ns, correlation=correlation)
            )

    def overhead(self, name: str, start_ns: int) -> None:
        """Record an interval up to now on the track of the profiler's own work."""
        if self.now_ns > start_ns:
            self._slices.append(HostSlice(self.reserve(), OVERHEAD_THREAD, "overhead", name, start_ns, self.now_ns))

    def allocate(self, size_bytes: int) -> None:
        """Record an allocator event; negative sizes are frees."""
        self._allocated_bytes += size_bytes
        self._remember(size_bytes, 0x7F00_0000_0000 + (len(self.memory) % 4096) * 2**21)

    def fail_to_allocate(self, size_bytes: int) -> None:
        """Record that the allocator found no room."""
        self._remember(size_bytes, None)

    def _remember(self, size_bytes: int, address: int | None) -> None:
        reserved_bytes = -(-max(self._allocated_bytes, 0) // 2**21) * 2**21 + self.cached_bytes
        self.memory.append(
            MemoryRecord(self.thread, self.now_ns, address, size_bytes, self._allocated_bytes, reserved_bytes)
        )

    def reserve(self) -> int:
        """Return the place in the order of openings that a slice opened now has."""
        self._order += 1
        return self._order - 1

    def next_sequence(self) -> int:
        """Return a fresh autograd sequence number."""
        self._sequence += 1
        return self._sequence

    @property
    def next_correlation(self) -> int:
        """Return the correlation that the next runtime call will have."""
        return self._correlation + 1

    @property
    def external_id(self) -> int | None:
        """Return the id of the innermost operator open on the current thread."""
        opened = self._operator()
        return None if opened is None else opened.external_id

    @property
    def operator(self) -> tuple[str | None, Any]:
        """Return the innermost operator open on the current thread, and the shapes of its inputs where recorded."""
        opened = self._operator()
        return (None, None) if opened is None else (opened.name, opened.args.get("Input Dims"))

    def _operator(self) -> _Open | None:
        for opened in reversed(self._open):
            if opened.category == "cpu_op" and opened.thread == self.thread:
                return opened
        return None

    def slices(self) -> tuple[HostSlice, ...]:
        """Return every slice in the order of opening; annotations of no length are left out, as nothing ran in them."""
        kept = [held for held in self._slices if held.category != "annotation" or held.end_ns > held.start_ns]
        return tuple(sorted(kept, key=lambda held: held.order))
