"""Threads of the host: their slices, nested and written; what calls launched; allocations and flows."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.nesting import ANCESTOR_CATEGORIES, NONE, Nester, Slices, name_hashes
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.xla.arguments import ArgumentWriter
from traceanalyzer.ingest.xla.events import LineEvents, dur_ns, read_events, start_ns
from traceanalyzer.ingest.xla.ids import indices
from traceanalyzer.ingest.xla.space import LineHead, Plane, Space
from traceanalyzer.ingest.xla.wire import Int

STEP_MARK = "step_num"
CATEGORIES = ("other", "annotation", "python", "runtime", "driver", "cpu_op")
_OTHER, _ANNOTATION, _PYTHON, _RUNTIME, _DRIVER, _CPU_OP = range(len(CATEGORIES))
# The place of each category among those that are looked for around a slice.
_ANCESTOR_CODES = np.array(
    [ANCESTOR_CATEGORIES.index(name) if name in ANCESTOR_CATEGORIES else NONE for name in CATEGORIES], np.int64
)
_BATCH_ROWS = 2**17
_RUNTIME_NAME = re.compile(r"(?:cuda|hip)[A-Z]")
_DRIVER_NAME = re.compile(r"cu[A-Z]|hsa_")
# Names that XLA, its clients and the frameworks give what they do themselves: a missed annotation of the user costs
# less than an invented one.
_OWN_NAME = re.compile(
    r"\$|PjitFunction\(|Wait |end: |ParseArguments|DevicePut|shard_args|Handle |AllocateOutputBuffers|H2D Dispatch"
    r"|XLA|Xla|.*::|.*:XLA \w+ module|TF[A-Z_]|Eager|Compile|Executor|<unknown>|<UNKNOWN>|Build buffer|RecordUsage"
    r"|Memory(?:Allocation|Deallocation)|Copy(?:From|To)|Transfer|Linearize|ThenExecuteCallback"
    r"|Resolve constant globals|MakeOutputBuffers|ComputeSemaphoreAcquire|RunInvariantCheckers|cpp_pjit|pjit|pmap"
    r"|backend_compile"
    r"|lower_sharding_computation|trace_to_jaxpr|BatchedCopyToDevice|batched_copy_|ExecuteReplicated|ExecuteSharded"
    r"|ValidateInputTypeAndPlacement|tf\.constant$|convert_to_tensor|.*SyncTensorsGraph|StepMarker$|SyncLiveTensorsGraph"
    r"|TensorCollectionBarrier|CollectSyncTensors|ExtractIRAndPrepareXlaData|RunPostOrder|SetTensorData|GetTensorsOpsData"
    # Passes and operations of compiled programs.
    r"|[\w-]+ \((?:jit|pjit|pmap|Sync|cluster)\w*\)|wrapped_|command_buffer"
    r"|custom-call|memcpy|memset|copy$"
    r"|.*fusion[._\d]*$|[a-z][\w-]*\.\d+$"
)
# An operator of TensorFlow: its place in the model, and its type. What feeds the model, or moves values, is none.
_TENSORFLOW_OP = re.compile(
    r"(?P<place>[^\s:]+):_?(?P<type>(?!(?:Eager)?PyFunc|Iterator|MultiDeviceIterator|RemoteCall|Optional|(?:Host)?Recv|(?:Host)?Send)"
    r"(?!\w*Dataset)[A-Z]\w*)"
)
# Values by which XLA's own events are known.
_OWN_VALUES = ("_src", "hlo_op", "correlation_id", "_p", "_c", "allocator_name", "tf_function_call")
_ALLOCATIONS = {"MemoryAllocation": "alloc", "MemoryDeallocation": "free"}
_DEVICE_OF_ALLOCATOR = re.compile(r"GPU_(\d+)")
_MOST_SIZE_BYTES = 2**46


@dataclass
class HostFacts:
    """What the host's lines show beside their slices."""

    # Slices that launched work, batch by batch: correlation, slice_id, start_ns, op_id, annotation_id, python_id, name.
    calls: list[dict[str, Any]] = field(default_factory=list)
    has_stacks: bool = False
    has_memory: bool = False
    slice_count: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    # Outermost marks of steps, by thread: slice ids, starts, ends.
    marks: dict[int, tuple[Int, Int, Int]] = field(default_factory=dict)


class HostPlaneWriter:
    """Writes the lines of host planes, one thread each."""

    def __init__(self, space: Space, sink: TraceSink, base_ns: int, report: Callable[[int], None]) -> None:
        self._space = space
        self._sink = sink
        self._base_ns = base_ns
        self._report = report
        self._threads: list[dict[str, object]] = []
        self._nester = Nester()
        self.facts = HostFacts()
        self.line_names: set[str] = set()

    def write(self, plane: Plane, pid: str) -> None:
        """Write every line of a plane."""
        arguments = ArgumentWriter(self._space, plane)
        for start, end in zip(plane.line_starts.tolist(), plane.line_ends.tolist(), strict=True):
            line = self._space.line(start, end)
            thread_id = len(self._threads)
            self._threads.append(
                {
                    "thread_id": thread_id,
                    "pid": pid,
                    "tid": str(line.id),
                    "process_name": plane.name,
                    "thread_name": line.name,
                }
            )
            self.line_names.add(line.name)
            self._write_line(plane, line, thread_id, arguments)
            self._report(end)

    def finish(self) -> None:
        """Write the threads."""
        self._sink.append("threads", pa.Table.from_pylist(self._threads, self._sink.schema("threads")))
        self._space.defects.add("crossing-slices", self._nester.crossing_count)

    def _write_line(self, plane: Plane, line: LineHead, thread_id: int, arguments: ArgumentWriter) -> None:
        rows = _LineRows()
        for events in read_events(self._space, plane, line, self._base_ns):
            self._sink.append("event_args", arguments.rows(events))
            starts = start_ns(line, events.offset_ps, self._base_ns)
            self._write_flows(events, starts, thread_id)
            is_memory = self._write_memory(plane, events, starts, thread_id)
            rows.add(plane, events, starts, ~is_memory)
        table = rows.table()
        if table is None:
            return
        category = table.category
        has_frames = bool((category == _PYTHON).any())
        self.facts.has_stacks |= has_frames
        if not (has_frames or len(table.step_number)):
            category[category == _ANNOTATION] = _OTHER
        self._nest(plane, table, thread_id)

    def _nest(self, plane: Plane, rows: _SliceRows, thread_id: int) -> None:
        order = np.lexsort((rows.event_id, -rows.dur_ns, rows.start_ns))
        names = pa.array(plane.event_names, pa.string())
        count = len(order)
        facts = self.facts
        facts.slice_count += count
        first, last = int(rows.start_ns.min()), int((rows.start_ns + rows.dur_ns).max())
        facts.first_ns = first if facts.first_ns is None else min(facts.first_ns, first)
        facts.last_ns = last if facts.last_ns is None else max(facts.last_ns, last)
        marks = [np.empty(0, np.int64)] * 3
        for begin in range(0, count, _BATCH_ROWS):
            at = order[begin : begin + _BATCH_ROWS]
            marks = self._write_batch(rows, at, names, thread_id, marks)
        if len(marks[0]):
            facts.marks[thread_id] = (marks[0], marks[1], marks[2])

    def _write_batch(
        self, rows: _SliceRows, at: Int, names: pa.Array[Any], thread_id: int, marks: list[Int]
    ) -> list[Int]:
        category = rows.category[at]
        named = names.take(indices(rows.name[at]))
        is_mark = rows.is_mark[at]
        if is_mark.any():
            named = self._with_numbers(named, rows, at, is_mark)
        slices = Slices(
            rows.event_id[at],
            np.full(len(at), thread_id, np.int64),
            rows.start_ns[at],
            rows.dur_ns[at],
            _ANCESTOR_CODES[category],
            name_hashes(named),
        )
        nested = self._nester.feed(slices)
        columns: dict[str, Any] = {
            "slice_id": pa.array(slices.slice_id),
            "thread_id": pa.array(slices.thread_id),
            "category": pa.DictionaryArray.from_arrays(indices(category), pa.array(CATEGORIES)).cast(pa.string()),
            "raw_category": pa.array([STEP_MARK, None]).take(indices(np.where(is_mark, 0, 1))),
            "name": named,
            "start_ns": pa.array(slices.start_ns),
            "dur_ns": pa.array(slices.dur_ns),
            "depth": pa.array(nested.depth),
            "parent_id": _ids(nested.parent_id),
            "stack_id": pa.array(nested.stack_id),
            "correlation": pa.array(rows.correlation[at], mask=~rows.has_correlation[at]),
        }
        for column, ids in zip(("op_id", "annotation_id", "python_id", "module_id"), nested.nearest, strict=True):
            columns[column] = _ids(ids)
        self._sink.append("host_slices", pa.table(columns))
        calls = np.flatnonzero(rows.has_correlation[at])
        if len(calls):
            self.facts.calls.append(
                {
                    "correlation": rows.correlation[at][calls],
                    "slice_id": slices.slice_id[calls],
                    "start_ns": slices.start_ns[calls],
                    "op_id": nested.nearest[0][calls],
                    "annotation_id": nested.nearest[1][calls],
                    "python_id": nested.nearest[2][calls],
                    "name": named.take(indices(calls)),
                }
            )
        found = np.flatnonzero(is_mark)
        ends = slices.start_ns + slices.dur_ns
        for_marks = (slices.slice_id[found], slices.start_ns[found], ends[found])
        return [np.concatenate([old, new]) for old, new in zip(marks, for_marks, strict=True)]

    def _with_numbers(
        self, named: pa.Array[Any], rows: _SliceRows, at: Int, is_mark: npt.NDArray[np.bool_]
    ) -> pa.Array[Any]:
        """Return names with the number of the step behind those of marks."""
        texts = named.to_pylist()
        for place in np.flatnonzero(is_mark).tolist():
            texts[place] = f"{texts[place]} {rows.step_number[int(rows.event_id[at[place]])]}"
        return pa.array(texts, pa.string())

    def _write_flows(self, events: LineEvents, starts: Int, thread_id: int) -> None:
        for id_name, type_name, phase in (("_p", "_pt", "s"), ("_c", "_ct", "f")):
            owner, ids = events.picker.integers(id_name)
            if not len(owner):
                continue
            kinds = events.picker.values(type_name)
            self._sink.append(
                "flows",
                pa.table(
                    {
                        "event_id": pa.array(events.event_id[owner]),
                        "flow_id": pa.array(ids.view(np.uint64)).cast(pa.string()),
                        "category": pa.array([_text(kinds.get(event)) for event in owner.tolist()], pa.string()),
                        "phase": pa.array([phase] * len(owner)),
                        "thread_id": pa.array(np.full(len(owner), thread_id)),
                        "start_ns": pa.array(starts[owner]),
                        "binds_enclosing": pa.array(np.ones(len(owner), np.bool_)),
                    }
                ),
            )

    def _write_memory(self, plane: Plane, events: LineEvents, starts: Int, thread_id: int) -> npt.NDArray[np.bool_]:
        """Write allocator events, and return which events they are."""
        kinds = [_ALLOCATIONS.get(name) for name in plane.event_names]
        is_memory = np.array([kind is not None for kind in kinds], np.bool_)[events.name] if kinds else None
        if is_memory is None or not is_memory.any():
            return np.zeros(len(events), np.bool_)
        self.facts.has_memory = True
        rows = np.flatnonzero(is_memory)
        picker = events.picker
        codes, allocators = picker.codes("allocator_name")
        device_of = [_device_of_allocator(name) for name in allocators]
        is_alloc = np.array([kind == "alloc" for kind in kinds], np.bool_)[events.name]
        numbers = {}
        for name in ("addr", "allocation_bytes", "bytes_allocated", "index_on_host"):
            values, known = np.zeros(len(events), np.int64), np.zeros(len(events), np.bool_)
            owner, found = picker.integers(name)
            values[owner], known[owner] = found, True
            if name != "addr":
                known &= np.abs(values) <= _MOST_SIZE_BYTES
            numbers[name] = (values, known)
        device = np.array(device_of, np.int64)[codes]
        on_tpu = numbers["index_on_host"][1]
        device = np.where(on_tpu, numbers["index_on_host"][0] % 2**31, device)
        sizes, known_sizes = numbers["allocation_bytes"]
        self._sink.append(
            "memory_events",
            pa.table(
                {
                    "event_id": pa.array(events.event_id[rows]),
                    "thread_id": pa.array(np.full(len(rows), thread_id)),
                    "start_ns": pa.array(starts[rows]),
                    "kind": pa.array(np.where(is_alloc[rows], "alloc", "free").tolist(), pa.string()),
                    "device_type": pa.array(np.where(device[rows] < 0, 0, 1)),
                    "device": pa.array(device[rows]),
                    "address": _known(*numbers["addr"], rows),
                    "size_bytes": _known(np.where(is_alloc, sizes, -sizes), known_sizes, rows),
                    "allocated_bytes": _known(*numbers["bytes_allocated"], rows),
                }
            ),
        )
        return is_memory


@dataclass
class _SliceRows:
    """The slices of one line, in order of the file."""

    event_id: Int
    name: Int
    start_ns: Int
    dur_ns: Int
    category: Int
    correlation: Int
    has_correlation: npt.NDArray[np.bool_]
    is_mark: npt.NDArray[np.bool_]
    step_number: dict[int, object]  # by event


class _LineRows:
    """Collects what slices need of the batches of one line."""

    def __init__(self) -> None:
        self._columns: list[list[npt.NDArray[Any]]] = [[] for _ in range(8)]
        self._step_number: dict[int, object] = {}

    def add(self, plane: Plane, events: LineEvents, starts: Int, kept: npt.NDArray[np.bool_]) -> None:
        picker = events.picker
        count = len(events)
        correlation, has_correlation = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        owner, numbers = picker.integers("correlation_id")
        correlation[owner], has_correlation[owner] = numbers, True
        steps = picker.values(STEP_MARK)
        is_mark = np.zeros(count, np.bool_)
        is_mark[list(steps)] = True
        self._step_number |= {int(events.event_id[event]): number for event, number in steps.items()}
        category = _categories(plane, events, is_mark, has_correlation)
        columns = (
            events.event_id,
            events.name,
            starts,
            dur_ns(events.offset_ps, events.dur_ps),
            category,
            correlation,
            has_correlation,
            is_mark,
        )
        for pieces, column in zip(self._columns, columns, strict=True):
            pieces.append(column if kept.all() else column[kept])

    def table(self) -> _SliceRows | None:
        """Return all rows, or None where there are none."""
        if not self._columns[0]:
            return None
        columns: list[Any] = [np.concatenate(pieces) for pieces in self._columns]
        if not len(columns[0]):
            return None
        event_id, name, start, dur, category, correlation, has_correlation, is_mark = columns
        return _SliceRows(
            event_id, name, start, dur, category, correlation, has_correlation, is_mark, self._step_number
        )


def _categories(
    plane: Plane, events: LineEvents, is_mark: npt.NDArray[np.bool_], has_correlation: npt.NDArray[np.bool_]
) -> Int:
    """Return the category of each event; whether a line has annotations of the user at all shows at its end."""
    by_name = np.array([_category_of_name(name) for name in plane.event_names], np.int64)
    category = by_name[events.name] if len(by_name) else np.zeros(len(events), np.int64)
    is_own = np.zeros(len(events), np.bool_)
    for name in _OWN_VALUES:
        is_own |= events.picker.has(name)
    category[is_own & (category == _ANNOTATION)] = _OTHER
    category[events.picker.has("hlo_op") & ~has_correlation] = _CPU_OP
    category[has_correlation & (category != _RUNTIME)] = _DRIVER
    category[is_mark] = _ANNOTATION
    return category


def _category_of_name(name: str) -> int:
    if name.startswith("$"):
        return _PYTHON
    if _RUNTIME_NAME.match(name):
        return _RUNTIME
    if _DRIVER_NAME.match(name):
        return _DRIVER
    if _is_tensorflow_op(name):
        return _CPU_OP
    return _OTHER if _OWN_NAME.match(name) or not name else _ANNOTATION


def _is_tensorflow_op(name: str) -> bool:
    """Return whether a name is that of an operator: `model/dense/MatMul:MatMul`, `mul:Mul`, and not `phase:Train`."""
    found = _TENSORFLOW_OP.fullmatch(name)
    return found is not None and ("/" in found["place"] or found["place"].lower().startswith(found["type"].lower()))


def _device_of_allocator(name: str | None) -> int:
    """Return the device of an allocator, such as GPU_0_bfc; -1: the host's."""
    found = _DEVICE_OF_ALLOCATOR.search(name or "")
    return int(found[1]) if found and len(found[1]) < 9 else -1


def _text(value: object) -> str | None:
    return None if value is None else str(value)


def _known(values: Int, known: npt.NDArray[np.bool_], rows: Int) -> pa.Array[Any]:
    return pa.array(values[rows], mask=~known[rows])


def _ids(ids: Int) -> pa.Array[Any]:
    """Return ids with NONE as NULL."""
    return pa.array(ids, mask=ids == NONE)
