"""The simulated computer: host threads that issue work, a launch queue, FIFO streams and a device that runs them.

One virtual clock suffices for the host, because one thread issues at a time (the main thread waits while the autograd
thread runs). The device needs none: an op starts when its launch has arrived, the op before it on its stream is done,
and every op that its stream waits for is done; all of these are known when it is launched.
"""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace

from tracesim.catalogue.costs import Costs
from tracesim.catalogue.devices import Device
from tracesim.catalogue.kernels import Kernel
from tracesim.catalogue.recording import (
    COMPUTE_STREAM,
    STREAMS_A_DEVICE,
    CapturedLaunch,
    Collective,
    Copy,
    GpuOp,
    Migration,
    Recording,
    Rendezvous,
    SyncRecord,
)
from tracesim.machine import managed_memory
from tracesim.machine.counterfactual import Counterfactual
from tracesim.machine.streams import Streams
from tracesim.machine.tape import Tape
from tracesim.machine.truth import LaunchDelays

# Given what a communication kernel waits for, when it is ready and how long it transfers: when all are, and how long.
Meet = Callable[[Sequence[Rendezvous], int, int], tuple[int, int]]


class Machine:
    """Runs host actions in virtual time; its tape holds what a profiler sees, its ops the truth beside it."""

    def __init__(
        self, device: Device, costs: Costs, without: Counterfactual, seed: int = 0, meet: Meet | None = None
    ) -> None:
        self.device = device
        self.costs = costs
        self.without = without
        self.tape = Tape()
        self.step: int | None = None
        self.current = 0  # device that calls speak to
        self.graph: list[tuple[Kernel, int]] = []  # what was captured last
        self.capturing = False
        self._seed = seed
        self._meet = meet
        self._draws: Counter[tuple[str, int | None]] = Counter()
        self._ops: list[GpuOp] = []
        self._completions: list[int] = []  # end of each launch's last op, in launch order: the launch queue
        self._syncs: list[SyncRecord] = []
        self._migrations: list[Migration] = []
        self._captured: list[CapturedLaunch] = []
        self._streams = Streams(costs.kernel_gap_ns)
        self._launch_delays = LaunchDelays()
        self._step_starts: list[int] = []

    # Host time -----------------------------------------------------------------------------------------------------

    def spend(self, cause: str, dur_ns: int, label: str | None = None) -> None:
        """Let the issuing thread work for a while on behalf of a cause."""
        if dur_ns == 0 or cause in self.without.removed:
            return
        if cause in ("host.python", "host.op"):
            dur_ns = round(dur_ns * self.costs.host_scale)
        dur_ns = self.vary(dur_ns, label or cause)
        self.tape.now_ns += dur_ns
        self._launch_delays.add(cause, dur_ns)

    def wait_until(self, cause: str, until_ns: int) -> None:
        """Let the issuing thread wait for a while on behalf of a cause."""
        waited_ns = until_ns - self.tape.now_ns
        if waited_ns > 0:
            self.tape.now_ns += waited_ns
            self._launch_delays.add(cause, waited_ns)

    def begin_step(self, number: int) -> None:
        """Count everything from now on to a step."""
        self.step = number
        self._step_starts.append(self.tape.now_ns)

    def overhead(self, name: str, dur_ns: int, cause: str) -> None:
        """Let the profiler or the driver take time from the current thread, drawn on the overhead track."""
        start_ns = self.tape.now_ns
        self.spend(cause, dur_ns)
        self.tape.overhead(name, start_ns)

    def call(self, name: str, dur_ns: int, cause: str, return_value: int = 0) -> int:
        """Make a runtime call that costs its time to a cause; returns its correlation."""
        start_ns = self.tape.now_ns
        self.spend(cause, dur_ns, name)
        return self._runtime(name, start_ns, return_value=return_value)

    def create_context(self, dur_ns: int) -> None:
        """Make the first call that needs the device: it creates a context, which Nsight Systems notes at its end."""
        start_ns = self.tape.now_ns
        self.spend("host.alloc", dur_ns, "context")
        self.overhead("CUDA profiling data flush on context created", 1_000_000, "host.profiler")
        self._runtime("Malloc", start_ns)

    def free(self, dur_ns: int) -> None:
        """Give memory back: waits until the device is idle, as cudaFree does."""
        start_ns = self.tape.now_ns
        if "host.alloc" not in self.without.removed:
            self._launch_delays.begin_wait(self.tape.now_ns)
            self.tape.now_ns = max(start_ns + dur_ns, self._streams.done_ns() + self.costs.sync_return_ns)
            self._launch_delays.add("host.alloc", self.tape.now_ns - start_ns)
            self._runtime("Free", start_ns)

    # Device work ---------------------------------------------------------------------------------------------------

    def launch(
        self,
        kernel: Kernel,
        dur_ns: int,
        stream: int = COMPUTE_STREAM,
        collective: Collective | None = None,
        on_host_bytes: int = 0,
    ) -> None:
        """Launch one kernel; returns as soon as it is queued. In a capture nothing is, and the graph gets a node.

        `on_host_bytes` of managed memory lie on the host: the kernel runs until they have moved, and then computes.
        """
        if self.capturing:
            self.graph.append((kernel, dur_ns))
            operator = self.tape.operator
            correlation = self.call("LaunchKernel", self.costs.launch_ns, "host.launch_api")
            self._captured.append(CapturedLaunch(correlation, kernel, dur_ns, *operator))
            return
        dur_ns = self.vary(dur_ns, kernel.kernel_class)
        if collective is not None:
            cause = "dev.comm_p2p" if collective.is_message else "dev.comm_transfer"
            dur_ns = 0 if cause in self.without.removed else dur_ns
        else:
            dur_ns = self._scaled(kernel, dur_ns)
        api = "LaunchKernelExC" if collective is not None else "LaunchKernel"
        start_ns, queue_full_ns = self._issue(self.costs.launch_ns, api)
        correlation = self.tape.next_correlation
        dur_ns += managed_memory.demand_ns(on_host_bytes)
        op = self._enqueue(
            stream, "kernel", dur_ns, correlation, start_ns, queue_full_ns, kernel=kernel, collective=collective
        )
        self._migrations += managed_memory.moved_on_demand(self.current, op.start_ns, on_host_bytes, "HtoD")
        self._completions.append(op.end_ns)
        if self.costs.blocking_launches and "host.sync" not in self.without.removed:
            self._wait(0, op.end_ns + self.costs.sync_return_ns)
        self._runtime(api, start_ns)

    def launch_on_all(self, kernel: Kernel, dur_ns: int, device_count: int) -> None:
        """Launch a kernel of one process on each device: they run until the last has started, and then transfer."""
        dur_ns = 0 if "dev.comm_transfer" in self.without.removed else self.vary(dur_ns, kernel.kernel_class)
        ops = []
        for self.current in range(device_count):
            start_ns, queue_full_ns = self._issue(self.costs.launch_ns, "LaunchKernelExC")
            correlation = self._runtime("LaunchKernelExC", start_ns)
            ops.append(self._enqueue(COMPUTE_STREAM, "kernel", 0, correlation, start_ns, queue_full_ns, kernel=kernel))
        self.current = 0
        met_ns = max(op.start_ns for op in ops)
        for op in ops:
            met = replace(op, end_ns=met_ns + dur_ns, waited_ns=met_ns - op.start_ns)
            self._ops[op.index] = met
            self._streams.put(met)
            self._completions.append(met.end_ns)

    def launch_graph(self, kernels: list[tuple[Kernel, int]], stream: int = COMPUTE_STREAM) -> None:
        """Replay a graph: one call, many kernels one after the other."""
        start_ns, queue_full_ns = self._issue(self.costs.graph_launch_ns, "GraphLaunch")
        correlation = self._runtime("GraphLaunch", start_ns)
        for node, (kernel, dur_ns) in enumerate(kernels):
            dur_ns = self._scaled(kernel, self.vary(dur_ns, kernel.kernel_class))
            last = self._enqueue(
                stream, "kernel", dur_ns, correlation, start_ns, queue_full_ns, kernel=kernel, graph=(1, node)
            )
        self._completions.append(last.end_ns)

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
        start_ns = self.tape.now_ns
        order = self.tape.reserve()
        op = self._enqueue(
            stream,
            "memcpy",
            dur_ns,
            self.tape.next_correlation,
            start_ns,
            0,
            launch_end_ns=start_ns + self.costs.launch_ns,
            copy=copy,
        )
        self._completions.append(op.end_ns)
        late_from_ns = max(start_ns, op.start_ns) if self._launch_delays.begin_wait(self.tape.now_ns) else start_ns
        self.tape.now_ns = op.end_ns + self.costs.sync_return_ns
        self._launch_delays.add("host.memcpy_block", self.tape.now_ns - late_from_ns)
        self._runtime("MemcpyAsync", start_ns, order)

    def prefetch(self, size_bytes: int) -> None:
        """Move managed memory to the device beside its kernels, before one of them needs it."""
        self.call("MemPrefetchAsync", self.costs.launch_ns, "host.launch_api")
        start_ns = self.tape.now_ns + self.costs.launch_latency_ns
        self._migrations += managed_memory.moved_ahead(self.current, start_ns, size_bytes)

    def read_managed(self, size_bytes: int, function: str) -> None:
        """Let the host read managed memory that lies on the device; it waits for each page."""
        moves = managed_memory.moved_on_demand(self.current, self.tape.now_ns, size_bytes, "DtoH", function)
        self._migrations += moves
        self.spend("host.python", managed_memory.demand_ns(size_bytes), "managed")

    # Waiting -------------------------------------------------------------------------------------------------------

    def synchronize(self, kind: str = "device", stream: int = COMPUTE_STREAM) -> None:
        """Block the host until the device, a stream or the last event of a stream is done."""
        if "host.sync" in self.without.removed:
            return
        stream = self._here(stream)
        event = self._streams.event(stream) if kind == "event" else None
        if kind == "event":
            done_ns = 0 if event is None else event.done_ns
        else:
            done_ns = self._streams.done_ns(stream if kind == "stream" else None)
        start_ns = self.tape.now_ns
        self._wait(self.costs.api_min_ns, done_ns + self.costs.sync_return_ns)
        correlation = self._runtime(f"{kind.capitalize()}Synchronize", start_ns)
        waits = (None, None, None) if event is None else (stream, event.correlation, event.id)
        waited = stream if kind == "stream" else None
        # CUPTI's record lies inside the call; half a microsecond of the call is its own.
        self._syncs.append(SyncRecord(kind, start_ns + 500, self.tape.now_ns - 500, waited, correlation, *waits))

    def record_event(self, stream: int, name: str | None = None) -> None:
        """Mark the work queued on a stream so far; an event with a name outlives the stream's next one."""
        correlation = self.call("EventRecord", self.costs.event_ns, "host.launch_api")
        self._streams.record(self._here(stream), correlation, name)

    def wait_event(self, waiting: int, awaited: int | str) -> None:
        """Let the next op of a stream wait for an event, by name or the last of a stream; the host does not wait."""
        start_ns = self.tape.now_ns
        correlation = self.call("StreamWaitEvent", self.costs.event_ns, "host.launch_api")
        waiting = self._here(waiting)
        event = self._streams.event(self._here(awaited) if isinstance(awaited, int) else awaited)
        if event is None:
            return
        self._streams.wait(waiting, event)
        marked = (event.stream, event.correlation, event.id)
        self._syncs.append(SyncRecord("stream_wait", start_ns, self.tape.now_ns, waiting, correlation, *marked))

    def occupy(self, dur_ns: int, stream: int) -> None:
        """Let the device work for another process ahead of the next op of a stream; no profiler of this one sees it."""
        self._streams.occupy(self._here(stream), dur_ns)

    def finish(self) -> Recording:
        """Return everything recorded, slices in the order of their opening."""
        return Recording(
            self.tape.slices(),
            tuple(self._ops),
            tuple(self._syncs),
            tuple(self.tape.memory),
            tuple(self._step_starts),
            self.tape.now_ns,
            tuple(self._migrations),
            tuple(self._captured),
        )

    # Inside --------------------------------------------------------------------------------------------------------

    def _scaled(self, kernel: Kernel, dur_ns: int) -> int:
        """Return how long a compute kernel takes on this device, and where its class is made faster."""
        factor = self.costs.kernel_scale * self.without.scale(kernel)
        return round(dur_ns * factor / (self.costs.core_clock if kernel.is_compute_bound else 1.0))

    def _wait(self, least_ns: int, until_ns: int) -> None:
        """Wait for the device in a call that takes some time anyway; what compute misses meanwhile is settled."""
        self._launch_delays.begin_wait(self.tape.now_ns)
        begin_ns = self.tape.now_ns + least_ns
        self.tape.now_ns = max(begin_ns, until_ns)
        self._launch_delays.waited(begin_ns, self.tape.now_ns)

    def _issue(self, dur_ns: int, label: str) -> tuple[int, int]:
        """Spend a launch call's time, first waiting for a slot of the queue; returns its start and the wait."""
        start_ns = self.tape.now_ns
        dur_ns = self.vary(dur_ns, label)
        queue_full_ns = 0
        if len(self._completions) >= self.costs.queue_depth:
            queue_full_ns = max(0, self._completions[-self.costs.queue_depth] - dur_ns - start_ns)
        self.tape.now_ns += queue_full_ns
        if "host.launch_api" not in self.without.removed:
            self.tape.now_ns += dur_ns
            self._launch_delays.add("host.launch_api", dur_ns)
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
        launch_end_ns = self.tape.now_ns if launch_end_ns is None else launch_end_ns
        stream = self._here(stream)
        host_ready_ns = launch_end_ns + self.costs.launch_latency_ns
        start_ns, producer = self._streams.earliest_start(stream, self.current, host_ready_ns, copy)
        occupied_ns = self._streams.pop_occupied_ns(stream)
        start_ns += occupied_ns
        transfer_ns = start_ns
        if collective is not None and self._meet is not None:
            transfer_ns, dur_ns = self._meet(collective.rendezvous, start_ns, dur_ns)
        elif kernel is not None and kernel.kernel_class != "comm":
            dur_ns = self._streams.beside_comm_ns(self.current, start_ns, dur_ns, self.costs.comm_slows)
        op = GpuOp(
            index=len(self._ops),
            step=self.step,
            stream=stream,
            kind=kind,
            start_ns=start_ns,
            end_ns=transfer_ns + dur_ns,
            correlation=correlation,
            external_id=self.tape.external_id,
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
            waited_ns=transfer_ns - start_ns,
            occupied_ns=occupied_ns,
            **self._launch_delays.so_far(),
        )
        self._ops.append(op)
        self._streams.put(op)
        if op.is_compute:
            self._launch_delays.launched_compute(op.end_ns)
        return op

    def _here(self, stream: int) -> int:
        """Return the number that names a stream of the current device."""
        return stream + self.current * STREAMS_A_DEVICE

    def _copy_rate(self, copy: Copy) -> float:
        if "pageable" in (copy.src_kind, copy.dst_kind):
            return self.costs.pageable_bytes_per_s
        rates = {"DtoD": self.costs.device_bytes_per_s, "PtoP": self.costs.comm_bytes_per_s}
        return rates.get(copy.copy_kind, self.costs.pinned_bytes_per_s)

    def _runtime(self, name: str, start_ns: int, order: int | None = None, return_value: int = 0) -> int:
        """Record a runtime call that ends now, under its CUDA or HIP name; returns its correlation."""
        vendor = "hip" if self.device.vendor == "amd" else "cuda"
        return self.tape.call(vendor + name, start_ns, order, return_value)

    def vary(self, dur_ns: int, label: str) -> int:
        """Return the duration with its jitter: a draw of its own for each label, step and count, so that leaving one
        cause out of a run changes no other draw."""
        if self.costs.jitter == 0 or dur_ns == 0:
            return dur_ns
        self._draws[label, self.step] += 1
        draw = random.Random(f"{self._seed}/{label}/{self.step}/{self._draws[label, self.step]}")
        return max(1, round(dur_ns * draw.lognormvariate(0.0, self.costs.jitter)))
