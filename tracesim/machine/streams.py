"""The streams of a computer's devices: what is queued on each, what it has to wait for, and its events."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tracesim.catalogue.recording import Copy, GpuOp


@dataclass(frozen=True)
class Event:
    """A mark in a stream."""

    id: int
    correlation: int  # of the call that recorded it
    stream: int
    follows: Sequence[GpuOp]

    @property
    def done_ns(self) -> int:
        """When the device reaches it."""
        return _done_ns(self.follows)


class Streams:
    """Work in the order in which it was queued, stream by stream; an engine copies one thing at a time."""

    def __init__(self, gap_ns: int) -> None:
        self._gap_ns = gap_ns
        self._last: dict[int, GpuOp] = {}
        self._waits: dict[int, list[GpuOp]] = {}
        self._engine_free: dict[tuple[int, str], GpuOp] = {}
        self._events: dict[int | str, Event] = {}  # by name, or by stream: its last one
        self._event_count = 0
        self._occupied_ns: dict[int, int] = {}
        self._last_comm: dict[int, GpuOp] = {}

    def put(self, op: GpuOp) -> None:
        """Queue an op on its stream; one that is there already is changed."""
        self._last[op.stream] = op
        if op.is_communication:
            self._last_comm[op.device] = op
        if op.copy is not None:
            self._engine_free[op.device, op.copy.copy_kind] = op

    def earliest_start(self, stream: int, device: int, host_ready_ns: int, copy: Copy | None) -> tuple[int, int | None]:
        """Return when the next op of a stream can start, and the op whose end decides it; None where the host does."""
        start_ns, producer = host_ready_ns, None
        before = self.queued(stream)
        self._waits.pop(stream, None)
        for op in before:
            if op.end_ns + self._gap_ns > start_ns:
                start_ns, producer = op.end_ns + self._gap_ns, op.index
        engine = None if copy is None else self._engine_free.get((device, copy.copy_kind))
        if engine is not None and engine.end_ns > start_ns:
            start_ns, producer = engine.end_ns, engine.index
        return start_ns, producer

    def beside_comm_ns(self, device: int, start_ns: int, dur_ns: int, factor: float) -> int:
        """Return how long a kernel takes that is so many times slower while the device's last collective runs."""
        comm = self._last_comm.get(device)
        if comm is None or factor == 1 or not comm.start_ns < start_ns + dur_ns or comm.end_ns <= start_ns:
            return dur_ns
        alone_ns = max(0, comm.start_ns - start_ns)
        slowed_ns = round((dur_ns - alone_ns) * factor)
        beside_ns = comm.end_ns - start_ns - alone_ns
        if slowed_ns <= beside_ns:
            return alone_ns + slowed_ns
        return dur_ns + round(beside_ns * (1 - 1 / factor))

    def occupy(self, stream: int, dur_ns: int) -> None:
        """Keep the next op of a stream from running for a time, for work of others."""
        self._occupied_ns[stream] = self._occupied_ns.get(stream, 0) + dur_ns

    def pop_occupied_ns(self, stream: int) -> int:
        """Return how long the next op of a stream waits for work of others, once."""
        return self._occupied_ns.pop(stream, 0)

    def queued(self, stream: int) -> list[GpuOp]:
        """Return what must be done for a stream to be: its last op, and what it has to wait for since."""
        last = self._last.get(stream)
        return [*([] if last is None else [last]), *self._waits.get(stream, [])]

    def done_ns(self, stream: int | None = None) -> int:
        """Return when a stream is done with all that is queued, or every stream."""
        return _done_ns(list(self._last.values()) if stream is None else self.queued(stream))

    def record(self, stream: int, correlation: int, name: str | None = None) -> None:
        """Mark the work queued on a stream so far; an event with a name outlives the stream's next one."""
        self._event_count += 1
        self._events[stream] = Event(self._event_count, correlation, stream, self.queued(stream))
        if name is not None:
            self._events[name] = self._events[stream]

    def event(self, marked: int | str) -> Event | None:
        """Return an event by name, or the last of a stream."""
        return self._events.get(marked)

    def wait(self, stream: int, event: Event) -> None:
        """Let the next op of a stream wait for an event."""
        self._waits.setdefault(stream, []).extend(event.follows)


def _done_ns(ops: Sequence[GpuOp]) -> int:
    return max((op.end_ns for op in ops), default=0)
