"""The rows of an Nsight Systems export of a simulated run, by table."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

from tracesim.catalogue import nsys_vocabulary as words
from tracesim.catalogue.recording import (
    AUTOGRAD_THREAD,
    FIRST_WORKER,
    MAIN_THREAD,
    OVERHEAD_THREAD,
    PIN_THREAD,
    STREAMS_A_DEVICE,
    GpuOp,
    HostSlice,
    Migration,
    Recording,
    SyncRecord,
)
from tracesim.scenario.scenario import Scenario
from tracesim.writers.events import queued_before, recorded_ops

Row = dict[str, Any]
CUPTI = "CUPTI_ACTIVITY_KIND_"
# The run begins this long after the session.
LEAD_NS = 2_000_000_000
_PROGRAM = "/app/program"
_THREAD_NAMES = {MAIN_THREAD: "python", AUTOGRAD_THREAD: "pt_autograd_0", PIN_THREAD: "pt_data_pin"}
# Annotations that PyTorch draws itself become ranges with an op_id, like operators; the user's ranges are plain.
_DRAWN_BY_TORCH = re.compile(r"enumerate\(DataLoader\)#|Optimizer\.|nccl:|FSDP::|## |DistributedDataParallel")
_STEP = re.compile(r"ProfilerStep#(\d+)")


class Strings:
    """Every text once, numbered."""

    def __init__(self) -> None:
        self.ids: dict[str, int] = {}

    def __call__(self, text: str) -> int:
        """Return a text's number."""
        return self.ids.setdefault(text, len(self.ids) + 1)


def global_pid(pid: int) -> int:
    """Return a process as nsys numbers it: hardware, virtual machine, process."""
    return 1 << 48 | pid << 24


def global_tid(thread: int) -> int:
    """Return a thread as nsys numbers it; workers are processes of one thread."""
    return global_pid(thread if thread >= FIRST_WORKER else MAIN_THREAD) | thread


class ExportedRows:
    """One run's rows; `nsys_vocabulary` says how the exporter's version numbers things."""

    def __init__(self, scenario: Scenario, recording: Recording, seed: int, version: words.Version) -> None:
        self._scenario = scenario
        self._recording = recording
        self._version = version
        self._ops = recorded_ops(scenario, recording, seed)
        self._hidden = queued_before(scenario, recording)
        self._strings = Strings()

    def tables(self, graph_mode: words.GraphMode) -> dict[str, list[Row]]:
        """Return every table that has rows, what texts are numbered by last."""
        tables: dict[str, list[Row]] = {}
        for table, row in self._all_rows(graph_mode):
            tables.setdefault(table, []).append(row)
        tables["StringIds"] = [{"id": number, "value": text} for text, number in self._strings.ids.items()]
        return tables

    def _all_rows(self, graph_mode: words.GraphMode) -> Iterator[tuple[str, Row]]:
        yield from self._device_rows(graph_mode)
        for taken in self._recording.slices:
            row = self._host_row(taken)
            if row is not None:
                yield row
        if not self._scenario.conditions.no_gpu:
            for number, sync in enumerate(self._recording.syncs, 1):
                yield from self._sync_rows(sync, number)
            for migration in self._recording.migrations:
                yield from self._migration_rows(migration)
        yield from self._thread_rows()
        yield from self._output_rows()
        yield from self._sample_rows()

    # Device --------------------------------------------------------------------------------------------------------

    def _device_rows(self, graph_mode: words.GraphMode) -> Iterator[tuple[str, Row]]:
        replays: dict[int, list[GpuOp]] = {}
        for op in self._ops:
            if op.graph_id is not None and graph_mode == "graph":
                replays.setdefault(op.correlation, []).append(op)
            elif op.kernel is not None:
                yield CUPTI + "KERNEL", self._kernel_row(op)
            elif op.copy is not None:
                kinds = {
                    "copyKind": words.COPY_KINDS[op.copy.copy_kind],
                    "srcKind": words.MEMORY_KINDS[op.copy.src_kind],
                    "dstKind": words.MEMORY_KINDS[op.copy.dst_kind],
                }
                yield CUPTI + "MEMCPY", {**self._where(op), "bytes": op.size_bytes, **kinds, "copyCount": 1}
            else:
                yield CUPTI + "MEMSET", {**self._where(op), "bytes": op.size_bytes, "memKind": 2}
        for ops in replays.values():
            span = {**self._where(ops[0]), "end": ops[-1].end_ns + LEAD_NS}
            yield CUPTI + "GRAPH_TRACE", {**span, "graphId": ops[0].graph_id, "graphExecId": ops[0].graph_id}

    def _where(self, op: GpuOp) -> Row:
        return {
            **_times(op.start_ns, op.end_ns),
            "deviceId": op.device,
            "contextId": op.device + 1,
            "greenContextId": 0,
            "streamId": op.stream % STREAMS_A_DEVICE,
            "correlationId": op.correlation,
            "globalPid": global_pid(MAIN_THREAD),
        }

    def _kernel_row(self, op: GpuOp) -> Row:
        kernel = op.kernel
        if kernel is None:
            return {}
        row = {**self._where(op), "demangledName": self._strings(kernel.name), "gridId": op.index + 1}
        # The short name is the function's, without return type, namespaces, template and arguments.
        short = re.split(r"[<(]", kernel.name.removeprefix("void "))[0].split("::")[-1]
        row.update(shortName=self._strings(short), mangledName=self._strings(kernel.name), launchType=1)
        row.update({f"grid{axis}": size for axis, size in zip("XYZ", kernel.grid, strict=True)})
        row.update({f"block{axis}": size for axis, size in zip("XYZ", kernel.block, strict=True)})
        row.update(registersPerThread=kernel.registers_per_thread, dynamicSharedMemory=kernel.shared_memory_bytes)
        if op.graph_id is not None and op.graph_node_id is not None:
            # Nodes are numbered above the graph they belong to.
            row.update(graphId=op.graph_id, graphNodeId=op.graph_id << 32 | op.graph_node_id + 1)
        return row

    def _sync_rows(self, sync: SyncRecord, number: int) -> Iterator[tuple[str, Row]]:
        """Yield a synchronisation; the event that it names only where those were recorded."""
        where = {"deviceId": sync.device, "contextId": sync.device + 1, "globalPid": global_pid(MAIN_THREAD)}
        event = {"eventId": words.NONE, "eventSyncId": 0}
        if sync.event_id is not None:
            event = {"eventId": sync.event_id, "eventSyncId": number}
        if sync.event_id is not None and self._scenario.conditions.sync_events:
            recorded = {"streamId": _written(sync.wait_on_stream), "correlationId": sync.wait_on_correlation}
            yield CUPTI + "CUDA_EVENT", {**where, **recorded, **event, "timestamp": 0}
        details = {"streamId": _written(sync.stream), "correlationId": sync.correlation}
        kind = {"syncType": self._version.sync_types[sync.kind]}
        yield CUPTI + "SYNCHRONIZATION", {**_times(sync.start_ns, sync.end_ns), **where, **details, **kind, **event}

    def _migration_rows(self, moved: Migration) -> Iterator[tuple[str, Row]]:
        """Yield a move of managed memory, which belongs to no context, stream or call, and the fault that caused it."""
        process = {"globalPid": global_pid(MAIN_THREAD)}
        kinds = {"copyKind": words.MIGRATION_KINDS[moved.copy_kind]}
        kinds |= {"srcKind": words.UNKNOWN_MEMORY, "dstKind": words.UNKNOWN_MEMORY}
        cause = {"migrationCause": words.MIGRATION_CAUSES[moved.cause]}
        row = {**_times(moved.start_ns, moved.end_ns), **process, **kinds, **cause, "deviceId": moved.device}
        yield CUPTI + "MEMCPY", {**row, "bytes": moved.size_bytes, "correlationId": 0}
        if moved.cause != "page fault" or not self._scenario.conditions.page_faults:
            return
        if moved.function is None:
            fault = {"deviceId": moved.device, "numberOfPageFaults": 1, "faultAccessType": 1}
            yield "CUDA_UM_GPU_PAGE_FAULT_EVENTS", {**_times(moved.start_ns, moved.end_ns), **process, **fault}
        else:
            code = {"CpuInstruction": self._strings(moved.function), "module": self._strings(_PROGRAM)}
            yield "CUDA_UM_CPU_PAGE_FAULT_EVENTS", {"start": moved.start_ns + LEAD_NS, **process, **code}

    # Host ----------------------------------------------------------------------------------------------------------

    def _host_row(self, taken: HostSlice) -> tuple[str, Row] | None:
        overhead = taken.thread == OVERHEAD_THREAD
        row = {
            **_times(taken.start_ns, taken.end_ns),
            "globalTid": global_tid(MAIN_THREAD if overhead else taken.thread),
        }
        match taken.category:
            case "runtime" if taken.correlation not in self._hidden:
                name = self._strings(words.api_name(taken.name))
                details = {"eventClass": words.RUNTIME_CLASS, "correlationId": taken.correlation, "nameId": name}
                return CUPTI + "RUNTIME", {**row, **details, "returnValue": taken.return_value}
            case "cpu_op" | "annotation":
                return "NVTX_EVENTS", {**row, **_range(marker_text(taken))}
            case "python" if taken.name == "Python GC":
                return "NVTX_EVENTS", {**row, **_range(taken.name)}
            case "os":
                return "OSRT_API", {**row, "eventClass": words.OSRT_CLASS, "nameId": self._strings(taken.name)}
            case "overhead":
                return self._overhead_row(taken, row)
        return None

    def _overhead_row(self, taken: HostSlice, row: Row) -> tuple[str, Row]:
        if taken.name in words.DRIVER_OVERHEADS:
            details = {"nameId": self._strings(taken.name), "overheadType": words.DRIVER_OVERHEADS[taken.name]}
            return CUPTI + "OVERHEAD", {**row, **details, "eventClass": words.OVERHEAD_CLASS}
        name, kind = words.PROFILER_OVERHEADS.get(taken.name, (taken.name, 1))
        return "PROFILER_OVERHEAD", {**row, "nameId": self._strings(name), "overheadType": kind}

    def _thread_rows(self) -> Iterator[tuple[str, Row]]:
        threads = sorted({taken.thread for taken in self._recording.slices} - {OVERHEAD_THREAD})
        for thread in threads:
            name = _THREAD_NAMES.get(thread, "pt_data_worker" if thread >= FIRST_WORKER else "python")
            yield "ThreadNames", {"nameId": self._strings(name), "priority": 20, "globalTid": global_tid(thread)}
        for pid in sorted({MAIN_THREAD, *(thread for thread in threads if thread >= FIRST_WORKER)}):
            yield "PROCESSES", {"globalPid": global_pid(pid), "pid": pid, "name": "python"}

    def _output_rows(self) -> Iterator[tuple[str, Row]]:
        """Yield what the program printed."""
        if self._scenario.conditions.output:
            ids = {"filenameId": self._strings(f"pid_{MAIN_THREAD}_stderr.log")}
            ids["contentId"] = self._strings(self._scenario.conditions.output)
            yield "ProcessStreams", {"globalPid": global_pid(MAIN_THREAD), **ids}

    def _sample_rows(self) -> Iterator[tuple[str, Row]]:
        """Yield samples of the main thread: the Python frames around each instant, the outermost in `main`."""
        every_ns = round(self._scenario.conditions.sample_us * 1e3)
        frames = [
            taken
            for taken in self._recording.slices
            if taken.category == "python" and taken.thread == MAIN_THREAD and taken.name != "Python GC"
        ]
        last_ns = max((taken.end_ns for taken in frames), default=0)
        around: list[HostSlice] = []
        coming = iter([*frames, None])
        following = next(coming)
        for number, at_ns in enumerate(range(0, last_ns, every_ns) if every_ns else (), 1):
            while following is not None and following.start_ns <= at_ns:
                around.append(following)
                following = next(coming)
            around = [taken for taken in around if taken.end_ns > at_ns]
            sample = {"id": number, "start": at_ns + LEAD_NS, "cpu": 0, "threadState": 1, "cpuCycles": 1}
            yield "COMPOSITE_EVENTS", {**sample, "globalTid": global_tid(MAIN_THREAD)}
            for depth, name in enumerate([*(taken.name for taken in reversed(around)), "main"]):
                frame = {"symbol": self._strings(name), "module": self._strings(_PROGRAM), "kernelMode": 0}
                yield "SAMPLING_CALLCHAINS", {"id": number, **frame, "stackDepth": depth}


def _written(stream: int | None) -> int:
    return words.NONE if stream is None else stream % STREAMS_A_DEVICE


def _times(start_ns: int, end_ns: int) -> Row:
    return {"start": start_ns + LEAD_NS, "end": end_ns + LEAD_NS}


def _range(text: str) -> Row:
    return {"eventType": words.PUSH_POP, "text": text, "domainId": 0}


def marker_text(taken: HostSlice) -> str:
    """Return what PyTorch's emit_nvtx writes for an operator, or a range of the user's own without any of it.

    The profiler's steps do not exist under nsys; who marks steps there does so with a range.
    """
    if taken.category == "annotation" and not _DRAWN_BY_TORCH.match(taken.name):
        return _STEP.sub(r"step \1", taken.name)
    parts = [taken.name]
    if taken.sequence is not None:
        parts.append(f"seq = {taken.sequence}")
    parts.append(f"op_id = {taken.external_id}")
    dims = taken.args.get("Input Dims")
    if isinstance(dims, Iterable) and dims:
        parts.append(f"sizes = {[size for shape in dims for size in _sizes(shape)]}")
    return ", ".join(parts)


def _sizes(shape: list[Any]) -> list[Any]:
    """Return the sizes of one input: the tensors of a list stand among the other inputs."""
    return shape if shape and isinstance(shape[0], list) else [shape]
