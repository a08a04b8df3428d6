"""Work of devices: streams of GPUs and operations of TPUs, each piece with the call that launched it."""

from __future__ import annotations

import itertools
import re
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.device_check import ROUNDING_NS
from traceanalyzer.ingest.nesting import NONE, id_column
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.xla import naming, tpu
from traceanalyzer.ingest.xla.allocations import write_allocations_of_driver
from traceanalyzer.ingest.xla.arguments import ArgumentWriter
from traceanalyzer.ingest.xla.events import LineEvents, dur_ns, read_events, start_ns
from traceanalyzer.ingest.xla.launches import DeviceFacts, ModuleLaunches
from traceanalyzer.ingest.xla.space import LineHead, Plane, Space
from traceanalyzer.ingest.xla.stats import Value, indices
from traceanalyzer.ingest.xla.wire import Int

GPU, TPU = re.compile(r"/device:GPU:(\d{1,6})"), re.compile(r"/device:TPU:(\d{1,6})")
# Devices of other kinds, whose work is not read.
_ACCELERATOR = re.compile(r"/device:((?!(?:GPU|TPU|CPU|CUSTOM):)[A-Z]\w*):\d{1,6}")
DERIVED_NAMES = re.compile(
    "Steps|XLA Modules|XLA Ops|XLA TraceMe|Async XLA Ops|Host Offload Ops|TensorFlow Ops|TensorFlow Name Scope"
    "|Framework Ops|Framework Name Scope|Launch Stats|Source code"
)
_FIRST_DERIVED_ID, _LAST_DERIVED_ID = 0xDEADBEEF, 0xDEADBFFF
_STREAM = "Stream #"
_MEMORY_VALUES = ("memalloc_details", "MemFree_details", "MemoryResidency_details")


def is_derived(line: LineHead) -> bool:
    """Return whether a line of a GPU repeats the work of others."""
    return DERIVED_NAMES.fullmatch(line.name) is not None or _FIRST_DERIVED_ID <= line.id % 2**32 <= _LAST_DERIVED_ID


class DeviceWriter:
    """Writes the work of devices, and their other lines as slices on no thread."""

    def __init__(self, space: Space, sink: TraceSink, base_ns: int, launches: ModuleLaunches) -> None:
        self._space = space
        self._sink = sink
        self._base_ns = base_ns
        self._launches = launches
        self.facts = DeviceFacts()

    def write(self, plane: Plane) -> None:
        tpu_plane = TPU.fullmatch(plane.name)
        device = self._device(plane)
        if device is not None:
            self._describe(plane, device, is_tpu=tpu_plane is not None)
        if tpu_plane is not None and device is not None:
            self._write_tpu(plane, device)
            return
        arguments = ArgumentWriter(self._space, plane)
        for start, end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
            line = self._space.line(start, end)
            for events in read_events(self._space, plane, line, self._base_ns):
                self._sink.append("event_args", arguments.rows(events))
                if device is None:
                    self._write_async(plane, events, "accelerator" if _ACCELERATOR.fullmatch(plane.name) else "span")
                elif is_derived(line):
                    self._write_async(plane, events, "derived")
                elif line.name == "_counters_":
                    self._write_counters(plane, events)
                else:
                    self._write_stream(plane, events, device)

    def _device(self, plane: Plane) -> int | None:
        """Return the number of a plane's device; None: it has none. One that lost its name is the next one free."""
        found = GPU.fullmatch(plane.name) or TPU.fullmatch(plane.name)
        if found:
            return int(found[1])
        lines = zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True)
        if plane.name or not any(self._space.line(*place).name.startswith(_STREAM) for place in lines):
            return None
        device = next(number for number in itertools.count() if number not in self.facts.rows)
        self._space.defects.add("unnamed-device", example=f"read as device {device}")
        return device

    def _describe(self, plane: Plane, device: int, *, is_tpu: bool) -> None:
        stats = plane.stats
        vendor = _vendor(stats.get("device_vendor"), is_tpu=is_tpu)
        if vendor is None and stats.get("gpu_device_name") is not None:
            vendor = "nvidia"
        self.facts.vendor = self.facts.vendor or vendor
        row: dict[str, object] = {
            "device": device,
            "name": _name(stats.get("gpu_device_name"))
            or _name(stats.get("device_type_string"))
            or ("TPU" if is_tpu else None),
            "vendor": vendor,
            "sm_count": _whole(stats.get("core_count"), 2**31),
            "memory_bytes": _whole(stats.get("memory_size"), 2**50),
            "compute_major": _whole(stats.get("compute_cap_major"), 2**16),
            "compute_minor": _whole(stats.get("compute_cap_minor"), 2**16),
        }
        known = self.facts.rows.setdefault(device, row)
        known.update({key: value for key, value in row.items() if known[key] is None})

    def _write_stream(self, plane: Plane, events: LineEvents, device: int) -> None:
        """Write what is work on a stream, and put the rest where it belongs."""
        kinds, kind_names = self._kinds(plane, events)
        is_work = np.isin(kinds, [place for place, kind in enumerate(kind_names) if kind in naming.WORK])
        moves_bytes = np.array(["BYTES_TRANSFER" in name for name in plane.event_names] or [False], np.bool_)
        is_work |= (kinds == kind_names.index(naming.MANAGED)) & moves_bytes[events.name]
        work = np.flatnonzero(is_work)
        if len(work):
            self._write_work(plane, events, device, work, [kind_names[place] for place in kinds[work].tolist()])
        if not self._launches.has_memory:
            written = write_allocations_of_driver(self._sink, events, device, self._base_ns)
            self.facts.has_memory |= written
        for kind, category in ((naming.OVERHEAD, "span"), (naming.MEMORY, "memory")):
            rows = np.flatnonzero(kinds == kind_names.index(kind))
            if len(rows):
                self._write_async(plane, events, category, rows)
        self._write_managed(plane, events, device, np.flatnonzero(kinds == kind_names.index(naming.MANAGED)))

    def _kinds(self, plane: Plane, events: LineEvents) -> tuple[Int, list[str]]:
        picker = events.picker
        is_memory = np.zeros(len(events), np.bool_)
        for name in _MEMORY_VALUES:
            is_memory |= picker.has(name)
        seen = (is_memory, picker.has("cuda_graph_exec_id"), picker.has("memcpy_details"), picker.has("Memset_details"))
        code = events.name * 16 + sum(flag.astype(np.int64) << bit for bit, flag in enumerate(seen))
        different, place = np.unique(code, return_inverse=True)
        names = [*naming.WORK, naming.MEMORY, naming.OVERHEAD, naming.MANAGED]
        found = []
        for number in different.tolist():
            presence = naming.Presence(*(bool(number >> bit & 1) for bit in range(4)))
            found.append(names.index(naming.kind_of(plane.event_names[number // 16], events.line.name, presence)))
        return np.array(found, np.int64)[place.reshape(-1)] if found else place, names

    def _write_work(self, plane: Plane, events: LineEvents, device: int, work: Int, kinds: list[str]) -> None:
        picker, launches = events.picker, self._launches
        correlation, has_correlation = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
        owner, numbers = picker.integers("correlation_id")
        correlation[owner], has_correlation[owner] = numbers, True
        at = launches.find(correlation[work], has_correlation[work])
        launch_names = launches.names.take(indices(np.maximum(at, 0), mask=at == NONE)).to_pylist()
        names = [naming.known_name(plane.event_names[place], events.line.name) for place in events.name[work].tolist()]
        starts = start_ns(events.line, events.offset_ps[work], self._base_ns)
        lengths = dur_ns(events.offset_ps[work], events.dur_ps[work])
        details = self._details(events, work, kinds)
        annotation = launches.column("annotation_id", at)
        by_time = np.where((at != NONE) & (annotation == NONE), launches.step_at(launches.column("start_ns", at)), NONE)
        is_copy = [kind == naming.COPY or kind == naming.MANAGED for kind in kinds]
        hlo_codes, hlo_ops = picker.codes("hlo_op")
        graph_id = self._number(events, work, "cuda_graph_id", kinds)
        self._note_command_buffers(graph_id, [hlo_ops[code] for code in hlo_codes[work].tolist()])
        columns: dict[str, Any] = {
            "op_id": pa.array(events.event_id[work]),
            "device": pa.array(np.full(len(work), device)),
            "stream": pa.array(np.full(len(work), events.line.id)),
            "context": self._context(events, work),
            "kind": pa.array(["memcpy" if kind == naming.MANAGED else kind for kind in kinds], pa.string()),
            "is_comm": pa.array(
                [kind == naming.KERNEL and naming.is_comm(name) for kind, name in zip(kinds, names, strict=True)]
            ),
            "name": pa.array(names, pa.string()),
            "start_ns": pa.array(starts),
            "dur_ns": pa.array(lengths),
            "correlation": pa.array(correlation[work], mask=~has_correlation[work]),
            "launch_id": id_column(launches.column("slice_id", at)),
            "cpu_op_id": id_column(launches.column("op_id", at)),
            "annotation_id": id_column(np.where(annotation == NONE, by_time, annotation)),
            "python_id": id_column(launches.column("python_id", at)),
            "link_source": self._link_source(at, by_time),
            "graph_id": graph_id,
            "graph_node_id": self._number(events, work, "cuda_graph_node_id", kinds),
            "copy_kind": pa.array(
                [
                    naming.copy_kind(name, launch) if moves else None
                    for name, launch, moves in zip(names, launch_names, is_copy, strict=True)
                ],
                pa.string(),
            ),
            "hlo_op": pa.array(hlo_ops, pa.string()).take(indices(hlo_codes[work])),
        }
        columns |= details
        self._sink.append("gpu_ops", pa.table(columns))
        self._note_span(starts, lengths)
        linked = at != NONE
        if linked.any():
            called, calls = (launches.column(name, at)[linked] for name in ("start_ns", "slice_id"))
            self.facts.launches.setdefault(device, []).append((called, starts[linked] - called, calls))
        order = np.argsort(starts, kind="stable")
        self.facts.has_overlaps |= bool(((starts + lengths)[order][:-1] > starts[order][1:] + ROUNDING_NS).any())

    def _link_source(self, at: Int, by_time: Int) -> pa.Array[Any]:
        """Return how the annotation and the Python frame around the launch of each piece of work were found."""
        launches = self._launches
        is_nested = (launches.column("op_id", at) != NONE) | (launches.column("python_id", at) != NONE)
        is_nested |= launches.column("annotation_id", at) != NONE
        of_flow = launches.column("by_flow", at) > 0
        place = np.where(by_time != NONE, 1, np.where(of_flow, 2, np.where(is_nested, 0, 3)))
        return pa.array(["nesting", "time", "flow", None]).take(indices(place))

    def _note_command_buffers(self, graph_id: pa.Array[Any], hlo_ops: list[str | None]) -> None:
        """Count work of graphs that does not say of which operation it is."""
        of_graph = graph_id.is_valid().to_pylist()
        count = sum(
            bool(in_graph) and (op is None or op.startswith("command_buffer"))
            for in_graph, op in zip(of_graph, hlo_ops, strict=True)
        )
        self._space.defects.add("command-buffer", count)

    def _details(self, events: LineEvents, work: Int, kinds: list[str]) -> dict[str, Any]:
        """Return grid, block, registers, memory and size of each piece of work."""
        picker = events.picker
        texts: list[str | None] = [None]
        code = np.zeros(len(work), np.int64)
        for name in ("Memset_details", "memcpy_details", "kernel_details"):
            own_codes, own_texts = picker.codes(name)
            has_text = np.array([bool(text) for text in own_texts], np.bool_)[own_codes[work]]
            code = np.where(has_text, own_codes[work] + len(texts), code)
            texts += own_texts
        found = [naming.details_of(text) for text in texts]
        unset = np.array([detail.is_unset for detail in found], np.bool_)[code]
        if unset.any():
            self._space.defects.add("unset-launch-values", int(unset.sum()), texts[int(code[unset.argmax()])] or "")
        is_copy = np.array([kind in (naming.COPY, naming.SET, naming.MANAGED) for kind in kinds], np.bool_)
        is_unknown = is_copy & (self.facts.vendor == "amd")

        def taken(values: list[Any], of: pa.DataType, mask: npt.NDArray[np.bool_] | None = None) -> pa.Array[Any]:
            return pa.array(values, of).take(indices(code, mask=mask))

        sizes = [detail.size_bytes for detail in found]
        is_zero = np.array([size == 0 for size in sizes], np.bool_)[code]
        occupancy = picker.doubles("theoretical_occupancy_pct")
        written = [detail.occupancy_percent for detail in found]
        shares = [occupancy.get(event) or written[at] for event, at in zip(work.tolist(), code.tolist(), strict=True)]
        return {
            **{
                f"{what}_{side}": taken([getattr(detail, what)[number] for detail in found], pa.int64())
                for what in ("grid", "block")
                for number, side in enumerate("xyz")
            },
            "registers_per_thread": taken([detail.registers for detail in found], pa.int64()),
            "shared_memory_bytes": taken([detail.shared_bytes for detail in found], pa.int64()),
            "size_bytes": taken(sizes, pa.int64(), ~is_copy | (is_unknown & is_zero)),
            "src_kind": taken([detail.source for detail in found], pa.string(), ~is_copy),
            "dst_kind": taken([detail.target for detail in found], pa.string(), ~is_copy),
            "occupancy_percent": pa.array(shares, pa.float64()),
        }

    def _context(self, events: LineEvents, work: Int) -> pa.Array[Any]:
        codes, texts = events.picker.codes("context_id")
        numbers = [
            int(text.strip("$")) if text and text.strip("$").isdigit() and len(text) < 20 else None for text in texts
        ]
        return pa.array(numbers, pa.int64()).take(indices(codes[work]))

    def _number(self, events: LineEvents, work: Int, name: str, kinds: list[str]) -> pa.Array[Any]:
        """Return a number of graphs; 0 is none."""
        values = np.zeros(len(events), np.int64)
        owner, numbers = events.picker.integers(name)
        values[owner] = numbers
        if name == "cuda_graph_id" and naming.GRAPH in kinds:
            owner, numbers = events.picker.integers("cuda_graph_exec_id")
            values[owner] = np.where(values[owner] == 0, numbers, values[owner])
        return pa.array(values[work], mask=values[work] == 0)

    def _write_managed(self, plane: Plane, events: LineEvents, device: int, rows: Int) -> None:
        if not len(rows):
            return
        names = [plane.event_names[place] for place in events.name[rows].tolist()]
        kinds = [
            "move" if "BYTES_TRANSFER" in name else "cpu_fault" if "CPU" in name else "gpu_fault" for name in names
        ]
        self._sink.append(
            "managed_memory",
            pa.table(
                {
                    "event_id": pa.array(events.event_id[rows]),
                    "kind": pa.array(kinds, pa.string()),
                    "device": pa.array([None if kind == "cpu_fault" else device for kind in kinds], pa.int64()),
                    "start_ns": pa.array(start_ns(events.line, events.offset_ps[rows], self._base_ns)),
                    "dur_ns": pa.array(dur_ns(events.offset_ps[rows], events.dur_ps[rows])),
                    "copy_kind": pa.array([naming.copy_kind(name, None) for name in names], pa.string()),
                }
            ),
        )

    def _write_counters(self, plane: Plane, events: LineEvents) -> None:
        names = [plane.event_names[place] for place in events.name.tolist()]
        values: list[float | None] = [None] * len(events)
        for name in set(names):
            for event, value in events.picker.doubles(name).items():
                if names[event] == name:
                    values[event] = value
        self._sink.append(
            "counters",
            pa.table(
                {
                    "event_id": pa.array(events.event_id),
                    "pid": pa.array([plane.name] * len(events)),
                    "name": pa.array(names, pa.string()),
                    "series": pa.array(names, pa.string()),
                    "start_ns": pa.array(start_ns(events.line, events.offset_ps, self._base_ns)),
                    "value": pa.array(values, pa.float64()),
                }
            ),
        )

    def _write_tpu(self, plane: Plane, device: int) -> None:
        """Write the operations of a TPU, and its other lines as slices on no thread; runs of programs come first."""
        lines = [
            self._space.line(start, end)
            for start, end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True)
        ]
        arguments = ArgumentWriter(self._space, plane)
        runs, op_count = tpu.ProgramRuns(), self.facts.op_count
        for line in sorted(lines, key=lambda line: line.name != tpu.RUNS):
            ops = tpu.TpuOps(self._space, plane, device, self._base_ns, runs)
            for events in read_events(self._space, plane, line, self._base_ns):
                self._sink.append("event_args", arguments.rows(events))
                if line.name == tpu.OPS:
                    ops.add(events)
                    continue
                if line.name == tpu.RUNS:
                    runs.add(events)
                    tpu.write_ends_of_flows(self._sink, events, self._base_ns)
                self._write_async(plane, events, "derived" if line.name == "Steps" else "span")
            self._note_span(*ops.write(self._sink))
        if op_count == self.facts.op_count:
            self._note_span(*runs.as_ops(tpu.TpuOps(self._space, plane, device, self._base_ns, runs)).write(self._sink))

    def _write_async(self, plane: Plane, events: LineEvents, category: str, rows: Int | None = None) -> None:
        rows = np.arange(len(events)) if rows is None else rows
        labels = pa.array([plane.label(place) for place in range(len(plane.event_names))], pa.string())
        kind = found[1] if (found := _ACCELERATOR.fullmatch(plane.name)) else ""
        self._sink.append(
            "async_slices",
            pa.table(
                {
                    "event_id": pa.array(events.event_id[rows]),
                    "pid": pa.array([plane.name] * len(rows)),
                    "tid": pa.array([str(events.line.id)] * len(rows)),
                    "category": pa.array([category] * len(rows)),
                    "raw_category": pa.array([f"{kind} {events.line.name}".lstrip()] * len(rows)),
                    "name": labels.take(indices(events.name[rows])),
                    "start_ns": pa.array(start_ns(events.line, events.offset_ps[rows], self._base_ns)),
                    "dur_ns": pa.array(dur_ns(events.offset_ps[rows], events.dur_ps[rows])),
                }
            ),
        )

    def _note_span(self, starts: Int, lengths: Int) -> None:
        facts = self.facts
        facts.op_count += len(starts)
        if len(starts):
            first, last = int(starts.min()), int((starts + lengths).max())
            facts.first_ns = first if facts.first_ns is None else min(facts.first_ns, first)
            facts.last_ns = last if facts.last_ns is None else max(facts.last_ns, last)


def _vendor(written: Value, *, is_tpu: bool) -> str | None:
    if is_tpu:
        return "google"
    known = str(written or "").lower()
    return known if known in ("nvidia", "amd", "intel") else None


def _name(value: Value) -> str | None:
    return str(value) if value else None


def _whole(value: Value, most: int) -> int | None:
    return value if isinstance(value, int) and 0 <= value < most else None
