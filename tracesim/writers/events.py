"""The events of a simulated trace in the order in which Kineto writes them; an event's place in it is its id."""

from __future__ import annotations

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from tracesim.actions.comm import collective_args
from tracesim.catalogue.devices import Device
from tracesim.catalogue.kernels import Kernel
from tracesim.catalogue.recording import (
    COMM_STREAM,
    COMPUTE_STREAM,
    COPY_STREAM,
    OVERHEAD_THREAD,
    STREAMS_A_DEVICE,
    GpuOp,
    HostSlice,
    MemoryRecord,
    Recording,
    SyncRecord,
)
from tracesim.scenario.scenario import Scenario
from tracesim.writers.ancestry import ancestries

HOST_PID = 4242
RAW_CATEGORIES = {
    "cpu_op": "cpu_op",
    "annotation": "user_annotation",
    "python": "python_function",
    "runtime": "cuda_runtime",
    "overhead": "overhead",
}
SYNC_NAMES = {
    "stream": "Stream Sync",
    "event": "Event Sync",
    "device": "Context Sync",
    "stream_wait": "Stream Wait Event",
}
# Stream Sync rows have had a track of their own since 2026-04, away from the stream's kernels.
SYNC_TRACK_OFFSET = 1_000_000
_AMD_STREAMS = {COMPUTE_STREAM: 0, COPY_STREAM: 3, COMM_STREAM: 5}
_CALLBACK_IDS = {
    "LaunchKernel": 211,
    "LaunchKernelExC": 430,
    "GraphLaunch": 311,
    "MemcpyAsync": 41,
    "MemsetAsync": 51,
    "StreamSynchronize": 131,
    "DeviceSynchronize": 165,
    "EventSynchronize": 137,
    "EventRecord": 135,
    "StreamWaitEvent": 147,
    "Malloc": 20,
    "Free": 22,
    "StreamBeginCapture": 301,
    "StreamEndCapture": 303,
    "GraphInstantiateWithFlags": 415,
}
# Calls from which a viewer's arrow to the device starts.
_FLOW_STARTS = ("Launch", "Memcpy", "Memset", "DeviceSynchronize", "StreamSynchronize", "StreamWaitEvent")
Source = HostSlice | GpuOp | SyncRecord | MemoryRecord


@dataclass(frozen=True, slots=True)
class TraceEvent:
    """One element of `traceEvents`, times in ns of virtual time, and the record it was made from."""

    phase: str
    category: str | None
    name: str
    pid: int | str
    tid: int | str
    start_ns: int
    dur_ns: int | None = None
    args: Mapping[str, Any] = field(default_factory=dict)
    flow_id: int | None = None
    source: Source | None = None


def written_stream(stream: int, device: Device) -> int:
    """Return the stream's number as the vendor's profiler writes it; on AMD the default stream is 0."""
    stream %= STREAMS_A_DEVICE
    return _AMD_STREAMS.get(stream, stream) if device.vendor == "amd" else stream


def trace_events(scenario: Scenario, recording: Recording, seed: int) -> list[TraceEvent]:
    """Return all events of the trace: operators, then device activity beside its calls, then names and marks."""
    ops = {op.index: op for op in recorded_ops(scenario, recording, seed)}
    events = [_host_event(taken) for taken in recording.slices if taken.category not in ("runtime", "overhead", "os")]
    events.extend(_memory_event(record) for record in recording.memory)
    events.extend(_activity(scenario, recording, ops))
    events.extend(_device_annotations(scenario, recording, ops))
    events.extend(_names(scenario, recording, bool(ops)))
    events.extend(_marks(recording))
    return events


def recorded_ops(scenario: Scenario, recording: Recording, seed: int) -> list[GpuOp]:
    """Return the device work that reached the profiler."""
    conditions = scenario.conditions
    if conditions.no_gpu:
        return []
    count = round(conditions.drop_kernels * len(recording.ops))
    lost = set(random.Random(f"{seed}/lost").sample(range(len(recording.ops)), count))
    return [op for op in recording.ops if op.index not in lost]


def queued_before(scenario: Scenario, recording: Recording) -> frozenset[int]:
    """Return the correlations of launches that happened before the recording began."""
    return frozenset(op.correlation for op in recording.ops[: scenario.conditions.carry_in])


def _host_event(taken: HostSlice) -> TraceEvent:
    args: dict[str, Any] = {}
    if taken.external_id is not None:
        args["External id"] = taken.external_id
    if taken.category in ("cpu_op", "annotation"):
        args["Record function id"] = 0
    if taken.sequence is not None:
        args["Sequence number"] = taken.sequence
        args["Fwd thread id"] = taken.forward_thread
    args.update(taken.args)
    args["Ev Idx"] = taken.order
    return _host_slice_event(taken, args)


def _host_slice_event(taken: HostSlice, args: Mapping[str, Any]) -> TraceEvent:
    overhead = taken.thread == OVERHEAD_THREAD
    return TraceEvent(
        "X",
        RAW_CATEGORIES[taken.category],
        taken.name,
        -1 if overhead else HOST_PID,
        0 if overhead else taken.thread,
        taken.start_ns,
        taken.end_ns - taken.start_ns,
        args,
        None,
        taken,
    )


def _memory_event(record: MemoryRecord) -> TraceEvent:
    args = {
        "Total Reserved": record.reserved_bytes,
        "Total Allocated": record.allocated_bytes,
        "Bytes": record.size_bytes,
        "Addr": record.address,
        "Device Id": 0,
        "Device Type": 1,
    }
    name = "[memory]"
    if record.address is None:
        name = "[OutOfMemory]"
        del args["Addr"]
    return TraceEvent("i", "cpu_instant_event", name, HOST_PID, record.thread, record.at_ns, None, args, None, record)


def _activity(scenario: Scenario, recording: Recording, ops: Mapping[int, GpuOp]) -> Iterator[TraceEvent]:
    """Yield device work, each op before the call that launched it, with arrows between them."""
    launched: dict[int, list[GpuOp]] = {}
    for op in ops.values():
        launched.setdefault(op.correlation, []).append(op)
    kernels = {correlation: works[0].kernel for correlation, works in launched.items()}
    kernels |= {launch.correlation: launch.kernel for launch in recording.captured}
    hidden = queued_before(scenario, recording)
    conditions = scenario.conditions
    syncs = (
        {sync.correlation: sync for sync in recording.syncs} if conditions.sync_events and not conditions.no_gpu else {}
    )
    for taken in recording.slices:
        if taken.category == "overhead":
            yield _host_slice_event(taken, {})
        if taken.category != "runtime" or taken.correlation is None:
            continue
        for op in launched.get(taken.correlation, ()):
            event = _op_event(op, scenario.device, linked=taken.correlation not in hidden)
            yield event
            yield TraceEvent("f", "ac2g", "ac2g", event.pid, event.tid, op.start_ns, flow_id=op.correlation)
        if taken.correlation in syncs:
            yield _sync_event(syncs[taken.correlation], scenario.device)
        if taken.correlation in hidden:
            continue
        call = taken.name.removeprefix("cuda").removeprefix("hip")
        yield _host_slice_event(taken, _runtime_args(taken, call, scenario.device, kernels.get(taken.correlation)))
        phase = "s" if call.startswith(_FLOW_STARTS) else "f"
        yield TraceEvent(phase, "ac2g", "ac2g", HOST_PID, taken.thread, taken.start_ns, flow_id=taken.correlation)


def _runtime_args(taken: HostSlice, call: str, device: Device, kernel: Kernel | None) -> dict[str, Any]:
    args: dict[str, Any] = {} if taken.external_id is None else {"External id": taken.external_id}
    number = _CALLBACK_IDS.get(call, 0)
    args["cid" if device.vendor == "amd" else "cbid"] = number
    args["correlation"] = taken.correlation
    if device.vendor == "amd" and kernel is not None:
        args["kernel"] = kernel.name
        args["grid"], args["block"] = list(kernel.grid), list(kernel.block)
        args["shared memory"] = kernel.shared_memory_bytes
    return args


def copy_name(op: GpuOp, device: Device) -> str:
    """Return a copy's name; ROCm does not name the kind of host memory."""
    if op.copy is None:
        return "Memset (Device)"
    kinds = [op.copy.src_kind.capitalize(), op.copy.dst_kind.capitalize()]
    if device.vendor == "amd":
        kinds = ["Host" if kind in ("Pageable", "Pinned") else kind for kind in kinds]
    return f"Memcpy {op.copy.copy_kind} ({kinds[0]} -> {kinds[1]})"


def kernel_loads(op: GpuOp, device: Device) -> tuple[float, float, int]:
    """Return blocks per SM, warps per SM and the estimated occupancy in per cent."""
    if op.kernel is None:
        return 0.0, 0.0, 0
    blocks = op.kernel.grid[0] * op.kernel.grid[1] * op.kernel.grid[2] / device.sm_count
    threads = op.kernel.block[0] * op.kernel.block[1] * op.kernel.block[2]
    warps = blocks * threads / device.warp_size
    resident = min(blocks, device.max_threads_per_sm // threads, 65_536 // (op.kernel.registers_per_thread * threads))
    return round(blocks, 6), round(warps, 6), min(100, round(100 * resident * threads / device.max_threads_per_sm))


def _op_event(op: GpuOp, device: Device, *, linked: bool) -> TraceEvent:
    stream = written_stream(op.stream, device)
    args: dict[str, Any] = {}
    if linked and op.external_id is not None:
        args["External id"] = op.external_id
    nvidia = device.vendor != "amd"
    if nvidia and op.kernel is not None:
        args["queued"] = 0
    args["device"] = op.device
    if nvidia:
        args["context"] = op.device + 1
    args.update(stream=stream, correlation=op.correlation)
    dur_ns = op.end_ns - op.start_ns
    if op.kernel is not None:
        args.update(_kernel_args(op, device))
        return TraceEvent("X", "kernel", op.kernel.name, op.device, stream, op.start_ns, dur_ns, args, None, op)
    args["bytes"] = op.size_bytes
    if dur_ns and op.size_bytes is not None:
        args["memory bandwidth (GB/s)"] = op.size_bytes / dur_ns
    category = "gpu_memcpy" if op.copy is not None else "gpu_memset"
    return TraceEvent("X", category, copy_name(op, device), op.device, stream, op.start_ns, dur_ns, args, None, op)


def _kernel_args(op: GpuOp, device: Device) -> dict[str, Any]:
    kernel = op.kernel
    if kernel is None:
        return {}
    grid, block = list(kernel.grid), list(kernel.block)
    if device.vendor == "amd":
        return {"kind": "Dispatch Kernel", "grid": grid, "block": block, **_collective(op)}
    blocks, warps, occupancy = kernel_loads(op, device)
    args = {
        "registers per thread": kernel.registers_per_thread,
        "shared memory": kernel.shared_memory_bytes,
        "blocks per SM": blocks,
        "warps per SM": warps,
        "grid": grid,
        "block": block,
        "est. achieved occupancy %": occupancy,
    }
    if op.graph_id is not None:
        args.update({"graph id": op.graph_id, "graph node id": op.graph_node_id})
    return {**args, **_collective(op)}


def _collective(op: GpuOp) -> dict[str, Any]:
    return {} if op.collective is None else collective_args(op.collective)


def _sync_event(sync: SyncRecord, device: Device) -> TraceEvent:
    # CUPTI's all-ones stream of a wait for no single stream, as Kineto prints it.
    stream = -1 if sync.stream is None else written_stream(sync.stream, device)
    args: dict[str, Any] = {"cuda_sync_kind": SYNC_NAMES[sync.kind]}
    if sync.wait_on_stream is not None:
        args["wait_on_stream"] = written_stream(sync.wait_on_stream, device)
        args["wait_on_cuda_event_record_corr_id"] = sync.wait_on_correlation
        args["wait_on_cuda_event_id"] = sync.event_id
    number = sync.device
    args.update(stream=stream, correlation=sync.correlation, device=number, context=number + 1)
    track = stream + SYNC_TRACK_OFFSET if sync.kind == "stream" else stream
    return TraceEvent(
        "X",
        "cuda_sync",
        SYNC_NAMES[sync.kind],
        number,
        track,
        sync.start_ns,
        sync.end_ns - sync.start_ns,
        args,
        None,
        sync,
    )


def _device_annotations(scenario: Scenario, recording: Recording, ops: Mapping[int, GpuOp]) -> Iterator[TraceEvent]:
    """Yield each annotation's span over the device work launched in it, a nanosecond wider on both sides."""
    above = ancestries(recording.slices)
    launch_at = {taken.correlation: at for at, taken in enumerate(recording.slices) if taken.category == "runtime"}
    spans: dict[tuple[int, int], tuple[int, int]] = {}
    for op in ops.values():
        at = above[launch_at[op.correlation]].annotation
        while at is not None:
            start_ns, end_ns = spans.get((at, op.stream), (op.start_ns, op.end_ns))
            spans[at, op.stream] = (min(start_ns, op.start_ns), max(end_ns, op.end_ns))
            at = above[at].annotation
    for (at, stream), (start_ns, end_ns) in sorted(spans.items()):
        taken = recording.slices[at]
        yield TraceEvent(
            "X",
            "gpu_user_annotation",
            taken.name,
            stream // STREAMS_A_DEVICE,
            written_stream(stream, scenario.device),
            start_ns - 1,
            end_ns - start_ns + 2,
            {"External id": taken.external_id},
        )


def _names(scenario: Scenario, recording: Recording, has_gpu: bool) -> Iterator[TraceEvent]:
    """Yield the metadata events that name processes and threads."""
    threads = sorted({taken.thread for taken in recording.slices if taken.category != "os"} - {OVERHEAD_THREAD})
    tracks: list[tuple[int, str, int, list[tuple[int, str]]]] = [
        (HOST_PID, "CPU", HOST_PID, [(thread, f"thread {thread} (python)") for thread in threads]),
    ]
    for number in range(scenario.conditions.device_count) if has_gpu else ():
        ops = [op for op in recording.ops if op.device == number]
        streams = sorted({written_stream(op.stream, scenario.device) for op in ops})
        named = [(stream, f"stream {stream} ") for stream in streams]
        tracks.append((number, f"GPU {number}", 5_000_000 + number, named))
    for pid, label, sort_index, names in tracks:
        yield _name("process_name", pid, 0, {"name": "python"})
        yield _name("process_labels", pid, 0, {"labels": label})
        yield _name("process_sort_index", pid, 0, {"sort_index": sort_index})
        for tid, name in names:
            yield _name("thread_name", pid, tid, {"name": name})
            yield _name("thread_sort_index", pid, tid, {"sort_index": tid})


def _name(name: str, pid: int | str, tid: int | str, args: Mapping[str, Any]) -> TraceEvent:
    return TraceEvent("M", None, name, pid, tid, 0, None, args)


def _marks(recording: Recording) -> Iterator[TraceEvent]:
    """Yield the profiler's own span and its global marks, the end mark last."""
    yield TraceEvent(
        "X", "Trace", "PyTorch Profiler (0)", "Spans", "PyTorch Profiler", 0, recording.end_ns, {"Op count": 0}
    )
    yield _name("process_sort_index", "Spans", 0, {"sort_index": 536_870_912})
    yield TraceEvent("i", None, "Iteration Start: PyTorch Profiler", "Traces", "Trace PyTorch Profiler", 0)
    yield TraceEvent("i", None, "Record Window End", "", "", recording.end_ns + 50_000)
