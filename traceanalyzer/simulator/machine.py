"""The simulated computer: host threads that issue work, a launch queue, FIFO streams and a device that runs them.

One virtual clock suffices for the host, because one thread issues at a time (the main thread waits while the autograd
thread runs). The device needs none: an op starts when its launch has arrived, the op before it on its stream is done,
and every op that its stream waits for is done; all of these are known when it is launched.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from traceanalyzer.simulator.devices import Device
from traceanalyzer.simulator.kernels import Kernel
from traceanalyzer.simulator.recording import (
    COMPUTE_STREAM,
    MAIN_THREAD,
    OVERHEAD_THREAD,
    Collective,
    Copy,
    GpuOp,
    HostSlice,
    MemoryRecord,
    Recording,
    SyncRecord,
)


@dataclass(frozen=True)
class Costs:
    """What things cost, in ns and bytes per second; `jitter` is the sigma of a log-normal factor, 0 for exact costs."""

    launch_ns: int = 6_000
    graph_launch_ns: int = 12_000
    event_ns: int = 1_000
    launch_latency_ns: int = 2_000
    kernel_gap_ns: int = 1_000
    sync_return_ns: int = 4_000
    api_min_ns: int = 8_000
    pinned_bytes_per_s: float = 50e9
    pageable_bytes_per_s: float = 12e9
    device_bytes_per_s: float = 1.5e12
    queue_depth: int = 1024
    jitter: float = 0.0


@dataclass(frozen=True)
class Counterfactual:
    """What is taken out of a run: causes that cost nothing, and kernel classes with a factor on their duration."""

    removed: frozenset[str] = frozenset()
    kernel_scale: Mapping[str, float] = field(default_factory=dict)

    def scale(self, kernel: Kernel) -> float:
        """Return the factor on a kernel's duration; the class `compute` stands for every class not named."""
        return self.kernel_scale.get(kernel.kernel_class, self.kernel_scale.get("compute", 1.0))


@dataclass
class _Open:
    order: int
    thread: int
    category: str
    external_id: int | None


class Machine:
    """Runs host actions in virtual time and records what a profiler would see, and the truth beside it."""

    def __init__(
        self, device: Device, costs: Costs, without: Counterfactual, seed: int = 0, sync_events: bool = False
    ) -> None:
        self.device = device
        self.costs = costs
        self.without = without
        self.now_ns = 0
        self.thread = MAIN_THREAD
        self.step: int | None = None
        self._seed = seed
        self._sync_events = sync_events
        self._draws: Counter[tuple[str, int | None]] = Counter()
        self._slices: list[HostSlice] = []
        self._ops: list[GpuOp] = []
        self._completions: list[int] = []  # end of each launch's last op, in launch order: the launch queue
        self._syncs: list[SyncRecord] = []
        self._memory: list[MemoryRecord] = []
        self._open: list[_Open] = []
        self._opened = 0
        self._correlation = 1000
        self._external_id = 0
        self._sequence = 0
        self._collectives = 0
        self._graphs = 0
        self._events: dict[int, tuple[int, int, GpuOp | None]] = {}  # stream: event id, correlation, op it follows
        self._event_count = 0
        self._last: dict[int, GpuOp] = {}
        self._waits: dict[int, list[GpuOp]] = {}
        self._engine_free: dict[str, GpuOp] = {}
        self._lateness: Counter[str] = Counter()
        self._blocked_ns = 0
        self._allocated_bytes = 0
        self._step_starts: list[int] = []

    # Host time -----------------------------------------------------------------------------------------------------

    def spend(self, cause: str, dur_ns: int, label: str | None = None) -> None:
        """Let the issuing thread work for a while on behalf of a cause."""
        if dur_ns == 0 or cause in self.without.removed:
            return
        dur_ns = self._vary(dur_ns, label or cause)
        self.now_ns += dur_ns
        self._lateness[cause] += dur_ns

    def begin_step(self, number: int) -> None:
        """Count everything from now on to a step."""
        self.step = number
        self._step_starts.append(self.now_ns)

    @contextmanager
    def slice(self, category: str, name: str, **fields: Any) -> Iterator[None]:
        """Record an interval of the current thread around what runs inside; operators and annotations get an id."""
        external_id = None
        if category in ("cpu_op", "annotation"):
            self._external_id += 1
            external_id = self._external_id
        opened = _Open(self._opened, self.thread, category, external_id)
        self._opened += 1
        self._open.append(opened)
        start_ns = self.now_ns
        yield
        self._open.pop()
        if category != "annotation" or self.now_ns > start_ns:
            self._record(opened, name, start_ns, self.now_ns, external_id=external_id, **fields)

    @contextmanager
    def on_thread(self, thread: int) -> Iterator[None]:
        """Hand over to another thread, and back when it is done."""
        previous, self.thread = self.thread, thread
        yield
        self.thread = previous

    def next_sequence(self) -> int:
        """Return a fresh autograd sequence number."""
        self._sequence += 1
        return self._sequence

    def overhead(self, name: str, dur_ns: int, cause: str) -> None:
        """Let the profiler or the driver take time from the current thread, drawn on the overhead track."""
        start_ns = self.now_ns
        self.spend(cause, dur_ns)
        if self.now_ns > start_ns:
            self._record(_Open(self._opened, OVERHEAD_THREAD, "overhead", None), name, start_ns, self.now_ns)
            self._opened += 1

    def call(self, name: str, dur_ns: int, cause: str) -> int:
        """Make a runtime call that costs its time to a cause; returns its correlation."""
        start_ns = self.now_ns
        self.spend(cause, dur_ns, name)
        return self._runtime(name, start_ns)

    def free(self, dur_ns: int) -> None:
        """Give memory back: waits until the device is idle, as cudaFree does."""
        start_ns = self.now_ns
        if "host.alloc" not in self.without.removed:
            self.now_ns = max(start_ns + dur_ns, self._idle_at_ns())
            self._lateness["host.alloc"] += self.now_ns - start_ns
            self._runtime("Free", start_ns)

    def allocate(self, size_bytes: int) -> None:
        """Record an allocator event; negative sizes are frees."""
        self._allocated_bytes += size_bytes
        reserved = -(-max(self._allocated_bytes, 0) // 2**21) * 2**21
        address = 0x7F00_0000_0000 + (len(self._memory) % 4096) * 2**21
        self._memory.append(
            MemoryRecord(self.thread, self.now_ns, address, size_bytes, self._allocated_bytes, reserved)
        )

    # Device work ---------------------------------------------------------------------------------------------------

    def launch(
        self, kernel: Kernel, dur_ns: int, stream: int = COMPUTE_STREAM, collective: Collective | None = None
    ) -> None:
        """Launch one kernel; returns as soon as it is queued."""
        dur_ns = self._vary(dur_ns, kernel.kernel_class)
        if collective is not None:
            dur_ns = 0 if "dev.comm_transfer" in self.without.removed else dur_ns
        else:
            dur_ns = round(dur_ns * self.without.scale(kernel))
        api = "LaunchKernelExC" if collective is not None else "LaunchKernel"
        start_ns, queue_full_ns = self._issue(self.costs.launch_ns, api)
        correlation = self._runtime(api, start_ns)
        self._completions.append(
            self._enqueue(
                stream, "kernel", dur_ns, correlation, start_ns, queue_full_ns, kernel=kernel, collective=collective
            ).end_ns
        )

    def launch_graph(self, kernels: list[tuple[Kernel, int]], stream: int = COMPUTE_STREAM) -> None:
        """Replay a graph: one call, many kernels one after the other."""
        start_ns, queue_full_ns = self._issue(self.costs.graph_launch_ns, "GraphLaunch")
        correlation = self._runtime("GraphLaunch", start_ns)
        for node, (kernel, dur_ns) in enumerate(kernels):
            dur_ns = round(self._vary(dur_ns, kernel.kernel_class) * self.without.scale(kernel))
            last = self._enqueue(
                stream, "kernel", dur_ns, correlation, start_ns, queue_full_ns, kernel=kernel, graph=(1, node)
            )
        self._completions.append(last.end_ns)
        self._graphs += 1

    def memset(self, size_bytes: int, dur_ns: int, stream: int = COMPUTE_STREAM) -> None:
        """Fill memory asynchronously."""
        dur_ns = 0 if "dev.memset" in self.without.removed else dur_ns
        start_ns, queue_full_ns = self._issue(self.costs.launch_ns, "MemsetAsync")
        correlation = self._runtime("MemsetAsync", start_ns)
        op = self._enqueue(stream, "memset", dur_ns, correlation, start_ns, queue_full_ns, size_bytes=size_bytes)
        self._completions.append(op.end_ns)

    def copy(self, copy: Copy, dur_ns: int | None = None, stream: int = COMPUTE_STREAM) -> None:
        """Copy memory: asynchronous from and to pinned memory, blocking the host where one end is pageable."""
        if dur_ns is None:
            dur_ns = round(copy.size_bytes / self._copy_rate(copy) * 1e9)
        if f"dev.{copy.copy_kind.lower().replace('to', '2')}" in self.without.removed:
            dur_ns = 0
        pageable = "pageable" in (copy.src_kind, copy.dst_kind)
        if pageable and "host.memcpy_block" not in self.without.removed:
            self._blocking_copy(copy, dur_ns, stream)
            return
        start_ns, queue_full_ns = self._issue(self.costs.launch_ns, "MemcpyAsync")
        correlation = self._runtime("MemcpyAsync", start_ns)
        op = self._enqueue(stream, "memcpy", dur_ns, correlation, start_ns, queue_full_ns, copy=copy)
        self._completions.append(op.end_ns)

    def _blocking_copy(self, copy: Copy, dur_ns: int, stream: int) -> None:
        """Copy through a staging buffer: the call waits for the stream, then for the copy."""
        start_ns = self.now_ns
        order = self._reserve()
        op = self._enqueue(
            stream,
            "memcpy",
            dur_ns,
            self._correlation + 1,
            start_ns,
            0,
            launch_end_ns=start_ns + self.costs.launch_ns,
            copy=copy,
        )
        self._completions.append(op.end_ns)
        self.now_ns = op.end_ns + self.costs.sync_return_ns
        self._lateness["host.memcpy_block"] += self.now_ns - start_ns
        self._runtime("MemcpyAsync", start_ns, order)

    # Waiting -------------------------------------------------------------------------------------------------------

    def synchronize(self, kind: str = "device", stream: int = COMPUTE_STREAM) -> None:
        """Block the host until the device, a stream or the last event of a stream is done."""
        if "host.sync" in self.without.removed:
            return
        event = self._events.get(stream)
        if kind == "device":
            done_ns = max((op.end_ns for op in self._last.values()), default=0)
        elif kind == "stream":
            done_ns = self._last[stream].end_ns if stream in self._last else 0
        else:
            done_ns = event[2].end_ns if event is not None and event[2] is not None else 0
        start_ns = self.now_ns
        self.now_ns = max(start_ns + self.costs.api_min_ns, done_ns + self.costs.sync_return_ns)
        self._blocked_ns += self.now_ns - start_ns - self.costs.api_min_ns
        correlation = self._runtime(f"{kind.capitalize()}Synchronize", start_ns)
        if self._sync_events:
            waits = (stream, event[1], event[0]) if kind == "event" and event is not None else (None, None, None)
            waited = stream if kind == "stream" else None
            # CUPTI's record lies inside the call; half a microsecond of the call is its own.
            self._syncs.append(SyncRecord(kind, start_ns + 500, self.now_ns - 500, waited, correlation, *waits))

    def record_event(self, stream: int) -> None:
        """Mark the work queued on a stream so far."""
        correlation = self.call("EventRecord", self.costs.event_ns, "host.launch_api")
        self._event_count += 1
        self._events[stream] = (self._event_count, correlation, self._last.get(stream))

    def wait_event(self, waiting: int, awaited: int) -> None:
        """Let the next op of a stream wait for the last event of another; the host does not wait."""
        start_ns = self.now_ns
        correlation = self.call("StreamWaitEvent", self.costs.event_ns, "host.launch_api")
        if awaited not in self._events:
            return
        event_id, recorded, op = self._events[awaited]
        if op is not None:
            self._waits.setdefault(waiting, []).append(op)
        if self._sync_events:
            record = SyncRecord("stream_wait", start_ns, self.now_ns, waiting, correlation, awaited, recorded, event_id)
            self._syncs.append(record)

    def next_collective(self, name: str, elements: int, dtype: str, group_size: int) -> Collective:
        """Return the next collective of the process group."""
        self._collectives += 1
        return Collective(name, elements, dtype, group_size, self._collectives)

    def finish(self) -> Recording:
        """Return everything recorded, slices in the order of their opening."""
        return Recording(
            tuple(sorted(self._slices, key=lambda slice: slice.order)),
            tuple(self._ops),
            tuple(self._syncs),
            tuple(self._memory),
            tuple(self._step_starts),
            self.now_ns,
        )

    # Inside --------------------------------------------------------------------------------------------------------

    def _issue(self, dur_ns: int, label: str) -> tuple[int, int]:
        """Spend a launch call's time, first waiting for a slot of the queue; returns its start and the wait."""
        start_ns = self.now_ns
        dur_ns = self._vary(dur_ns, label)
        queue_full_ns = 0
        if len(self._completions) >= self.costs.queue_depth:
            queue_full_ns = max(0, self._completions[-self.costs.queue_depth] - dur_ns - start_ns)
        self.now_ns += queue_full_ns
        if "host.launch_api" not in self.without.removed:
            self.now_ns += dur_ns
            self._lateness["host.launch_api"] += dur_ns
        return start_ns, queue_full_ns

    def _enqueue(
        self,
        stream: int,
        kind: str,
        dur_ns: int,
        correlation: int,
        launch_start_ns: int,
        queue_full_ns: int,
        *,
        launch_end_ns: int | None = None,
        kernel: Kernel | None = None,
        copy: Copy | None = None,
        collective: Collective | None = None,
        size_bytes: int | None = None,
        graph: tuple[int, int] | None = None,
    ) -> GpuOp:
        """Put one op on a stream and work out when it runs."""
        launch_end_ns = self.now_ns if launch_end_ns is None else launch_end_ns
        host_ready_ns = launch_end_ns + self.costs.launch_latency_ns
        start_ns, producer = host_ready_ns, None
        before = [self._last[stream]] if stream in self._last else []
        for op in before + self._waits.pop(stream, []):
            if op.end_ns + self.costs.kernel_gap_ns > start_ns:
                start_ns, producer = op.end_ns + self.costs.kernel_gap_ns, op.index
        engine = None if copy is None else self._engine_free.get(copy.copy_kind)
        if engine is not None and engine.end_ns > start_ns:
            start_ns, producer = engine.end_ns, engine.index
        op = GpuOp(
            index=len(self._ops),
            step=self.step,
            stream=stream,
            kind=kind,
            start_ns=start_ns,
            end_ns=start_ns + dur_ns,
            correlation=correlation,
            external_id=self._current_external_id(),
            launch_start_ns=launch_start_ns,
            launch_end_ns=launch_end_ns,
            queue_full_ns=queue_full_ns,
            host_ready_ns=host_ready_ns,
            producer=producer,
            kernel=kernel,
            copy=copy,
            collective=collective,
            size_bytes=copy.size_bytes if copy is not None else size_bytes,
            graph_id=graph[0] if graph else None,
            graph_node_id=graph[1] if graph else None,
            lateness=dict(self._lateness),
            blocked_ns=self._blocked_ns,
        )
        self._ops.append(op)
        self._last[stream] = op
        if copy is not None:
            self._engine_free[copy.copy_kind] = op
        if op.is_compute:
            self._lateness.clear()
            self._blocked_ns = 0
        return op

    def _copy_rate(self, copy: Copy) -> float:
        if "pageable" in (copy.src_kind, copy.dst_kind):
            return self.costs.pageable_bytes_per_s
        return self.costs.device_bytes_per_s if copy.copy_kind == "DtoD" else self.costs.pinned_bytes_per_s

    def _idle_at_ns(self) -> int:
        return max((op.end_ns for op in self._last.values()), default=0) + self.costs.sync_return_ns

    def _reserve(self) -> int:
        self._opened += 1
        return self._opened - 1

    def _runtime(self, name: str, start_ns: int, order: int | None = None) -> int:
        """Record a runtime call that ends now, under its CUDA or HIP name; returns its correlation."""
        self._correlation += 1
        order = self._reserve() if order is None else order
        self._record(
            _Open(order, self.thread, "runtime", None),
            ("hip" if self.device.vendor == "amd" else "cuda") + name,
            start_ns,
            self.now_ns,
            correlation=self._correlation,
            external_id=self._current_external_id(),
        )
        return self._correlation

    def _record(self, opened: _Open, name: str, start_ns: int, end_ns: int, **fields: Any) -> None:
        self._slices.append(HostSlice(opened.order, opened.thread, opened.category, name, start_ns, end_ns, **fields))

    def _current_external_id(self) -> int | None:
        for opened in reversed(self._open):
            if opened.category == "cpu_op" and opened.thread == self.thread:
                return opened.external_id
        return None

    def _vary(self, dur_ns: int, label: str) -> int:
        """Return the duration with its jitter: a draw of its own for each label, step and count, so that leaving one
        cause out of a run changes no other draw."""
        if self.costs.jitter == 0 or dur_ns == 0:
            return dur_ns
        self._draws[label, self.step] += 1
        draw = random.Random(f"{self._seed}/{label}/{self.step}/{self._draws[label, self.step]}")
        return max(1, round(dur_ns * draw.lognormvariate(0.0, self.costs.jitter)))
