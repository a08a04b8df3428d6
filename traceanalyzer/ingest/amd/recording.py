"""The canonical rows of AMD's recorders, into which every container is read, and the defects of recordings.

Copies are named as rocprofiler names them. Memory that programs take from the driver is as rocprofiler records it: a
FREE names an address and nothing else.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.device_check import DEVICE_DEFECTS
from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.defects import KINDS as KINDS_OF_DATABASES
from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.nsys.masks import Column

# defect → (severity, what it means and what to do)
_AGAIN = "record it again, or convert the recording again"
KINDS = {
    **{
        kind: KINDS_OF_DATABASES[kind]
        for kind in (
            "mixed-types",
            "number-out-of-range",
            "invalid-utf8",
            "negative-duration",
            "far-timestamp",
            "missing-string",
            "duplicate-correlation",
            *DEVICE_DEFECTS,
        )
    },
    "missing-table": (
        "loss",
        f"a table that the recorder always writes is not there; nothing of what it holds was read; {_AGAIN}",
    ),
    "unreadable-table": ("loss", "a table lacks the columns without which its rows mean nothing; it was left out"),
    "unreadable-rows": ("loss", f"the file is damaged or was cut short: what follows could not be read; {_AGAIN}"),
    "unreadable-record": ("loss", "a record is not what the recorder writes; it was left out"),
    "unfinished-write": ("loss", "a rollback journal lies beside the database: its writer did not finish"),
    "long-text": ("loss", "a text is longer than any that the recorder writes; it was cut"),
    "no-times": ("loss", "an event has no start or no end, or a start of zero; it was left out"),
    "missing-event": ("loss", "a row refers to an event that is not there; its call and its text are unknown"),
    "missing-kernel": ("loss", "a dispatch refers to a kernel that the file does not hold; it has no name"),
    "missing-agent": ("loss", "GPU work refers to a device that the file does not describe; it is shown as device 0"),
    "repeated-agent": ("note", "two GPUs have one number, as of two machines; the later one has the next free number"),
    "unknown-agent": ("note", "a device is neither a processor nor a GPU; its work is shown as that of a GPU"),
    "unknown-kind": ("note", "records of a kind that is not known; they were left out"),
    "unknown-operation": ("loss", "a record names a kind or an operation that the file does not list; it has no name"),
    "bad-json": ("loss", "a text that should be JSON is none; what it says is unknown"),
    "unknown-process": (
        "note",
        "rows do not say which of several processes they are of; they are shown with the first one",
    ),
    "repeated-dispatch": ("note", "dispatches share their number; all of them are kept"),
    "replayed-dispatch": (
        "note",
        "the recorder repeated dispatches to count more counters than fit at once; the repetitions were left out",
    ),
    "serialised-by-counters": (
        "note",
        "counters were collected of all kernels: kernels ran one at a time, so gaps are not the program's",
    ),
    "overlap-in-queue": (
        "note",
        "kernels start before the one ahead of them in their queue has ended: the firmware's times are inexact",
    ),
    "clock-since-boot": ("note", "times count from the machine's start: those of two machines cannot be compared"),
    "devices-by-number": (
        "note",
        "the agents are not described, so the number in the agent's name stands for the device; keep the file "
        "_agent_info.csv beside the others",
    ),
    "no-gpu-work": (
        "note",
        "the recording holds no GPU work: the program used no GPU, or the recorder began too late; for vLLM and "
        "SGLang, start the recorder after its file was made, and stop it before the program ends",
    ),
}


@dataclass
class AmdDefects(Defects):
    """Counts defects of AMD's recordings by kind."""

    kinds = KINDS


_KINDS = {"HOST_TO_DEVICE": "HtoD", "DEVICE_TO_HOST": "DtoH", "DEVICE_TO_DEVICE": "DtoD", "HOST_TO_HOST": "HtoH"}
COPY_PREFIX = "MEMORY_COPY_"


def copy_kinds(names: Column, between_gpus: Column | None = None) -> Column:
    """Return the kinds of copies by their names, such as MEMORY_COPY_HOST_TO_DEVICE; NULL for other names."""
    kinds = [_KINDS.get((name or "").removeprefix(COPY_PREFIX)) for name in names.to_pylist()]
    peers = flags(between_gpus).tolist() if between_gpus is not None else [False] * len(names)
    named = ["PtoP" if peer and kind == "DtoD" else kind for kind, peer in zip(kinds, peers, strict=True)]
    return pa.array(named, pa.string()).dictionary_encode()


def on_host(kinds: Column) -> npt.NDArray[np.bool_]:
    """Return which copies, by their kinds, the host makes by itself."""
    return flags(pc.call_function("equal", [kinds, pa.scalar("HtoH")]))


_CPU, _ROCM = 0, 6  # c10::DeviceType
_SCRATCH, _NO_GPU = "SCRATCH", -1


def allocation_rows(rows: Sequence[Mapping[str, Any]], devices: Sequence[int | None]) -> Iterator[tuple[str, pa.Table]]:
    """Yield rows of `memory_events`, with sizes and devices of frees from what was allocated at their address.

    `rows` have event_id, start, end, tid, type, level, address and size; `devices` are their GPUs, -1 for the CPU, None
    where it is not known. Scratch memory belongs to no allocation of the program: it is kept as arguments.
    """
    order = sorted(range(len(rows)), key=lambda at: (rows[at]["end"], rows[at]["event_id"]))
    held: dict[int | None, tuple[int | None, int | None]] = {}
    events, scratch = [], []
    for at in order:
        row, device = rows[at], devices[at]
        kind, size = (row["type"] or "").upper(), row["size"]
        if (row["level"] or "").upper() == _SCRATCH:
            scratch.append({"event_id": row["event_id"], "args": f'{{"scratch": "{kind}", "bytes": {size or 0}}}'})
            continue
        is_free = kind in ("FREE", "RECLAIM")
        if is_free:
            size, device = held.pop(row["address"], (None, None if device == _NO_GPU else device))
        else:
            held[row["address"]] = (size, device)
        events.append(
            {
                "event_id": row["event_id"],
                "thread": row["tid"],
                "start_ns": row["end"],
                "kind": "free" if is_free else "alloc",
                "device_type": _CPU if device == _NO_GPU else _ROCM,
                "device": device,
                "address": row["address"],
                "size_bytes": None if size is None else -size if is_free else size,
            }
        )
    if events:
        yield "memory_events", pa.Table.from_pylist(events)
    if scratch:
        yield "event_args", pa.Table.from_pylist(scratch)


_WORK: dict[str, pa.DataType] = {
    "op_id": pa.int64(),
    "event": pa.int64(),  # by which counters name a dispatch
    "device": pa.int64(),  # NULL: not described
    "stream": pa.int64(),
    "queue": pa.int64(),
    "is_copy": pa.bool_(),
    "is_fill": pa.bool_(),
    "name": pa.dictionary(pa.int32(), pa.string()),
    "start_ns": pa.int64(),
    "end_ns": pa.int64(),
    "correlation": pa.int64(),
    "size_bytes": pa.int64(),
    "copy_kind": pa.dictionary(pa.int32(), pa.string()),
    **{f"grid_{axis}": pa.int64() for axis in "xyz"},  # in work-groups
    **{f"block_{axis}": pa.int64() for axis in "xyz"},
    "registers_per_thread": pa.int64(),
    "shared_memory_bytes": pa.int64(),
    "scratch_bytes": pa.int64(),
    "range": pa.dictionary(pa.int32(), pa.string()),  # by which the user has kernels renamed
    "graph_id": pa.int64(),
    "graph_node_id": pa.int64(),
    "dispatch": pa.int64(),
}
# GPU work: kernels and copies.
WORK = pa.schema(_WORK)
_CALLS: dict[str, pa.DataType] = {
    "slice_id": pa.int64(),
    "thread": pa.int64(),
    "start_ns": pa.int64(),
    "dur_ns": pa.int64(),
    "kind": pa.int64(),  # position in ProcessRecording.kinds
    "name_code": pa.int64(),  # position in ProcessRecording.names
    "text": pa.string(),  # the name where it is none of those
    "correlation": pa.int64(),
}
# Intervals on host threads: calls and ranges.
CALLS = pa.schema(_CALLS)
# The category of host slices, by the beginning of what the recorder calls their kind; rocprof-sys: rocm_hip_api.
_CATEGORIES = (("HIP", "runtime"), ("HSA", "driver"), ("MARKER", "annotation"))


def category_of(kind: str | None) -> str:
    """Return the category of host slices of a kind, such as HIP_RUNTIME_API_EXT."""
    name = (kind or "").upper().removeprefix("ROCM_")
    return next((category for start, category in _CATEGORIES if name.startswith(start)), "other")


@dataclass(frozen=True)
class Identity:
    """What a recording says about the process and the machine as a whole."""

    format: str
    producer: str
    pid: int | None
    host: str | None
    rank: int | None = None
    world_size: int | None = None
    recorder: str = "rocprof"
    vendor: str = "amd"


class ProcessRecording(Protocol):
    """One process as one recorder saw it; rows may be read once, the calls ahead of all else."""

    folder: str  # that its tables go into: 0, or by process
    defects: AmdDefects
    identity: Identity
    devices: Sequence[Mapping[str, object]]
    metadata: Mapping[str, object]
    row_count: int
    _names: NameCodes
    _kinds: NameCodes

    def calls(self) -> Iterator[pa.RecordBatch]:
        """Yield calls and ranges, in the schema CALLS."""

    def names(self) -> Column:
        """Return the names to which name_code points; call it once all calls were read."""
        return self._names.column()

    def kinds(self) -> Sequence[tuple[str, str]]:
        """Return the category and the raw category to which `kind` points; call it once all calls were read."""
        return [(category_of(name), name) for name in self._kinds.list()]

    def work(self) -> Iterator[pa.RecordBatch]:
        """Yield GPU work, in the schema WORK."""

    def others(self) -> Iterator[tuple[str, pa.Table]]:
        """Yield rows of other canonical tables, with the table's name; drawn last."""

    def thread_names(self) -> Mapping[int, str]:
        """Return the threads that have names."""
        return {}

    def counters(self) -> CounterRows | None:
        """Return what hardware counters counted in dispatches; None where there are none."""
        return None


@dataclass(frozen=True)
class CounterRows:
    """Counters of dispatches or at times: a row an instance of a counter, whose sum is the counter's value."""

    names: Mapping[int, str]
    batches: Iterator[pa.RecordBatch]


_COUNTERS: dict[str, pa.DataType] = {
    "event": pa.int64(),  # of the dispatch
    "counter": pa.int64(),
    "value": pa.float64(),
    "at_ns": pa.int64(),  # when it was read; NULL: over the whole dispatch
    "sample_ns": pa.int64(),  # when it was read, of an event that is no dispatch
    "series": pa.string(),  # what was sampled, then
}
COUNTERS = pa.schema(_COUNTERS)


def counter_batch(event: Column, counter: Column, value: Column, *when: Column) -> pa.RecordBatch:
    """Return rows of counters, in the schema COUNTERS."""
    arrays = [event, counter, value, *(when or (pa.nulls(len(event), field.type) for field in list(COUNTERS)[3:]))]
    return pa.RecordBatch.from_arrays(arrays, schema=COUNTERS)


class Lookup:
    """Finds the places of ids among known ones, which may be in any order; the first of equal ones counts."""

    def __init__(self, ids: npt.NDArray[Any]) -> None:
        self.count = len(ids)
        # Ids that are counted without gaps need no search.
        self._first = int(ids[0]) if self.count else 0
        spans_all = self.count > 0 and int(ids[-1]) - self._first == self.count - 1
        self._is_counted = spans_all and bool((ids[1:] > ids[:-1]).all())
        self._order: npt.NDArray[Any] = np.empty(0, np.int64)
        self._sorted: npt.NDArray[Any] = np.empty(0, np.int64)
        if self.count and not self._is_counted:
            self._order = np.argsort(ids, kind="stable")
            self._sorted = ids[self._order].astype(np.int64, copy=False)

    def find(self, wanted: Column | Int) -> Int:
        """Return the place of each id, NONE for those that are unknown or NULL."""
        ids = wanted if isinstance(wanted, np.ndarray) else integers(wanted)
        found = np.full(len(ids), NONE, np.int64)
        if not self.count:
            return found
        if self._is_counted:
            known = (ids >= self._first) & (ids < self._first + self.count)
            found[known] = ids[known] - self._first
            return found
        at = np.minimum(np.searchsorted(self._sorted, ids), self.count - 1)
        known = self._sorted[at] == ids
        found[known] = self._order[at[known]]
        return found


_NULL = np.iinfo(np.int64).min


def integers(column: Column) -> Int:
    """Return a column of integers with NULL as the least integer, which no id is."""
    filled = column.fill_null(_NULL) if column.null_count else column
    found: Int = filled.to_numpy(zero_copy_only=False).astype(np.int64, copy=False)
    return found


def taken(values: Column, places: Int) -> Column:
    """Return values by their places; NULL where the place is NONE."""
    return values.take(array_of(places, places == NONE))


def array_of(values: npt.NDArray[Any], unknown: npt.NDArray[np.bool_]) -> Any:
    """Return an Arrow array in which the values of a mask are NULL."""
    return pa.array(values, mask=unknown)


def coded_column(codes: Int, values: Column) -> Any:
    """Return a column of few different values by their places; NULL where the place is NONE."""
    return pa.DictionaryArray.from_arrays(array_of(codes.astype(np.int32), codes == NONE), values)


def flags(mask: object) -> npt.NDArray[np.bool_]:
    """Return a column of truths, of which unknown counts as false."""
    truths: npt.NDArray[np.bool_] = cast("pa.BooleanArray", mask).fill_null(False).to_numpy(zero_copy_only=False)
    return truths


def where(mask: object, column: Column) -> Column:
    """Return a column with NULL where a mask does not hold."""
    return cast("Column", pc.call_function("if_else", [mask, column, pa.scalar(None, column.type)]))


def ints(numbers: Int) -> Column:
    """Return a column of numbers, of which NONE and the least integer are NULL."""
    return cast("Column", array_of(numbers, (numbers == NONE) | (numbers == _NULL)))


def unless_zero(ids: Column) -> Column:
    """Return ids, of which 0 is NULL."""
    numbers = integers(ids)
    return ints(np.where(numbers == 0, NONE, numbers))


class NameCodes:
    """Numbers names in the order in which they come."""

    def __init__(self) -> None:
        self._codes: dict[str, int] = {}

    def code(self, name: str) -> int:
        return self._codes.setdefault(name, len(self._codes))

    def column(self) -> Column:
        """Return the names in the order of their numbers."""
        return pa.array(self._codes, pa.string())

    def list(self) -> list[str]:
        """Return the names in the order of their numbers."""
        return list(self._codes)


def groups_of(items: Column, group: Column) -> Column:
    """Return how many work-groups a side of a grid has that is counted in work-items; NULL where it cannot be known."""
    grid, block = integers(items), integers(group)
    known = (block > 0) & (grid >= 0) & (grid <= 2**44)
    groups = np.where(known, -(-grid // np.where(known, block, 1)), NONE)
    return ints(groups)


def work_batch(count: int, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """Return rows of work; columns that are not given are NULL, and so is the size of copies of 0 bytes: none runs."""
    if "size_bytes" in columns:
        columns = {**columns, "size_bytes": unless_zero(columns["size_bytes"])}
    return _batch_of(WORK, count, {name: column.cast(_WORK[name]) for name, column in columns.items()})


def call_batch(count: int, columns: Mapping[str, Column]) -> pa.RecordBatch:
    """Return rows of calls; columns that are not given are NULL."""
    return _batch_of(CALLS, count, columns)


def _batch_of(schema: pa.Schema, count: int, columns: Mapping[str, Column]) -> pa.RecordBatch:
    arrays = [columns[field.name] if field.name in columns else pa.nulls(count, field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
