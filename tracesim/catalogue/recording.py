"""The records of the simulated profiler, in virtual time: integer nanoseconds since the run began."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from tracesim.catalogue.kernels import Kernel

MAIN_THREAD = 4242
AUTOGRAD_THREAD = 4310
PIN_THREAD = 4320
LOCK_HOLDER = 4330  # a thread of the program's own that logs
# torch.nn.DataParallel runs the model on the n-th device in the n-th of these; backward has the n-th after the autograd
# thread of the first.
FIRST_REPLICA = 4350
# Workers of the loader are processes of their own: a worker's process and its only thread have one number.
FIRST_WORKER = 4401
# Overhead records are drawn on a track of no process, as Kineto does it.
OVERHEAD_THREAD = -1

COMPUTE_STREAM = 7
COPY_STREAM = 20
COMM_STREAM = 24
# Streams of the process's n-th device are numbered from n times this on, so that one number names device and stream.
STREAMS_A_DEVICE = 1_000

_PPM = 1_000_000


@dataclass(frozen=True, slots=True)
class HostSlice:
    """One interval on a host thread; `order` counts openings, so a parent comes before its children."""

    order: int
    thread: int
    category: str  # cpu_op, annotation, python, runtime, overhead or os
    name: str
    start_ns: int
    end_ns: int
    correlation: int | None = None
    external_id: int | None = None
    sequence: int | None = None
    forward_thread: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    return_value: int = 0  # of a runtime call; only Nsight Systems writes it down


@dataclass(frozen=True, slots=True)
class Copy:
    """The bytes, direction and kinds of memory of a copy."""

    size_bytes: int
    copy_kind: str  # HtoD, DtoH or DtoD
    src_kind: str  # pageable, pinned or device
    dst_kind: str


@dataclass(frozen=True, slots=True)
class Migration:
    """One move of pages of managed memory between host and device; only Nsight Systems records it.

    `function` is the host's code whose access moved it; None: a kernel did, or the program asked for it.
    """

    device: int
    start_ns: int
    end_ns: int
    size_bytes: int
    copy_kind: str  # HtoD or DtoH
    cause: str  # page fault, speculative prefetch or user prefetch
    function: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessGroup:
    """Ranks that communicate with each other; `description` is what the job calls this kind of group."""

    name: str
    description: str
    ranks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Rendezvous:
    """A condition of a communication kernel: `members` ranks have arrived with the same key."""

    key: tuple[str | int, ...]
    members: int


@dataclass(frozen=True, slots=True)
class Collective:
    """The collective of a group, or the messages between two ranks, that a communication kernel belongs to."""

    name: str
    dtype: str
    group: ProcessGroup
    sequence: int
    in_elements: int
    out_elements: int
    rendezvous: tuple[Rendezvous, ...] = ()
    source: int | None = None  # rank that sends; None: a collective
    target: int | None = None  # rank that receives

    @property
    def is_message(self) -> bool:
        """Return whether it goes only from one rank to another."""
        return self.source is not None or self.target is not None


@dataclass(frozen=True, slots=True)
class GpuOp:
    """One piece of device work, with the truth about why it started when it did.

    `producer` is the index of the device op whose end decided the start; None where the host decided it.
    `launch_delays` is the time of the issuing thread, by cause, since the launch of the compute kernel before this one,
    or since the last wait after that launch which began, or ended, after compute had. `blocked_ns` is its waiting time
    in synchronisations meanwhile, `long_code_ns` the time of its own code without a call for long. `settled` is the
    blame for the time that compute was idle up to then. `waited_ns` is how long a communication kernel ran before the
    last of its ranks arrived; `occupied_ns` how long the device worked for another process before the op could start.
    """

    index: int
    step: int | None
    stream: int
    kind: str  # kernel, memcpy or memset
    start_ns: int
    end_ns: int
    correlation: int
    external_id: int | None
    launch_start_ns: int
    launch_end_ns: int
    queue_full_ns: int
    host_ready_ns: int
    producer: int | None
    kernel: Kernel | None = None
    copy: Copy | None = None
    collective: Collective | None = None
    size_bytes: int | None = None
    graph_id: int | None = None
    graph_node_id: int | None = None
    launch_delays: Mapping[str, int] = field(default_factory=dict)
    long_code_ns: int = 0
    blocked_ns: int = 0
    settled: Mapping[str, int] = field(default_factory=dict)
    waited_ns: int = 0
    occupied_ns: int = 0

    @property
    def device(self) -> int:
        """Return the device of the process that it runs on."""
        return self.stream // STREAMS_A_DEVICE

    @property
    def is_communication(self) -> bool:
        """Return whether it is a kernel that moves data between devices."""
        return self.collective is not None or (self.kernel is not None and self.kernel.kernel_class == "comm")

    @property
    def is_compute(self) -> bool:
        """Return whether it is a kernel other than communication."""
        return self.kind == "kernel" and not self.is_communication


@dataclass(frozen=True, slots=True)
class SyncRecord:
    """One recorded synchronisation: a host wait, or a stream that waits for an event of another."""

    kind: str  # stream, event, device or stream_wait
    start_ns: int
    end_ns: int
    stream: int | None
    correlation: int
    wait_on_stream: int | None = None
    wait_on_correlation: int | None = None
    event_id: int | None = None

    @property
    def device(self) -> int:
        """Return the device of the process whose work it waits for; a wait for all of them counts to the first."""
        return (self.stream or 0) // STREAMS_A_DEVICE


@dataclass(frozen=True, slots=True)
class MemoryRecord:
    """One allocator event of the framework; an allocation that failed is at no address."""

    thread: int
    at_ns: int
    address: int | None
    size_bytes: int
    allocated_bytes: int
    reserved_bytes: int


@dataclass(frozen=True)
class CapturedLaunch:
    """One launch that was recorded into a graph, and the operator that made it."""

    correlation: int
    kernel: Kernel
    dur_ns: int  # of its kernel when the graph is replayed
    operator: str | None
    input_shapes: Any  # of the operator; None: not recorded


@dataclass(frozen=True, slots=True)
class Recording:
    """Everything recorded in one simulated process, and when its steps began on the host."""

    slices: tuple[HostSlice, ...]
    ops: tuple[GpuOp, ...]
    syncs: tuple[SyncRecord, ...]
    memory: tuple[MemoryRecord, ...]
    step_starts_ns: tuple[int, ...]
    end_ns: int
    migrations: tuple[Migration, ...] = ()
    captured: tuple[CapturedLaunch, ...] = ()

    def on_drifting_clock(self, drift_ppm: float) -> Recording:
        """Return the same recording with the times of a clock that starts right and then runs fast."""
        if not drift_ppm:
            return self

        def shown_ns(time_ns: int) -> int:
            return time_ns + round(time_ns * drift_ppm / _PPM)

        return Recording(
            tuple(replace(it, start_ns=shown_ns(it.start_ns), end_ns=shown_ns(it.end_ns)) for it in self.slices),
            tuple(replace(op, start_ns=shown_ns(op.start_ns), end_ns=shown_ns(op.end_ns)) for op in self.ops),
            tuple(replace(sync, start_ns=shown_ns(sync.start_ns), end_ns=shown_ns(sync.end_ns)) for sync in self.syncs),
            tuple(replace(record, at_ns=shown_ns(record.at_ns)) for record in self.memory),
            tuple(map(shown_ns, self.step_starts_ns)),
            shown_ns(self.end_ns),
            tuple(replace(it, start_ns=shown_ns(it.start_ns), end_ns=shown_ns(it.end_ns)) for it in self.migrations),
        )
