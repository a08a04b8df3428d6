"""Threads of the host: their slices, nested and written; what calls launched; allocations and flows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from msgspec.structs import replace

from traceanalyzer.ingest.nesting import Nester, Slices, ancestor_codes, name_hashes
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.trace_events.frames import end_open_frames
from traceanalyzer.ingest.xla.allocations import write_allocations
from traceanalyzer.ingest.xla.arguments import ArgumentWriter
from traceanalyzer.ingest.xla.callers import CALLS_PROGRAM, RUNS_PROGRAM, Callers, Enclosed, thread_of_steps
from traceanalyzer.ingest.xla.events import LineEvents, dur_ns, read_events, start_ns
from traceanalyzer.ingest.xla.naming import (
    ANNOTATION,
    CATEGORIES,
    CPU_OP,
    DRIVER,
    OTHER,
    PYTHON,
    RUNTIME,
    category_of_name,
)
from traceanalyzer.ingest.xla.space import LineHead, Plane, Space
from traceanalyzer.ingest.xla.stats import codes_of_used, indices
from traceanalyzer.ingest.xla.wire import Int

STEP_MARK = "step_num"
# The place of each category among those that are looked for around a slice.
_ANCESTOR_CODES = ancestor_codes(CATEGORIES, np.arange(len(CATEGORIES)))
_BATCH_ROWS = 2**17
# Values by which XLA's own events are known.
_OWN_VALUES = ("_src", "hlo_op", "correlation_id", "_p", "_c", "allocator_name", "tf_function_call")


@dataclass
class HostFacts:
    """What the host's lines show beside their slices."""

    # Slices that launched work, batch by batch: columns, as ModuleLaunches has them, and names.
    calls: list[dict[str, Any]] = field(default_factory=list)
    has_stacks: bool = False
    has_memory: bool = False
    slice_count: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    # Outermost marks of steps, by thread: slice ids, starts, ends.
    marks: dict[int, tuple[Int, Int, Int]] = field(default_factory=dict)
    callers: Callers = field(default_factory=Callers)


class _Flows(NamedTuple):
    """Events of a line that ask another thread for work, or that do what another one asked for."""

    event_id: Int  # in order
    flow: Int
    asks: bool


class HostPlaneWriter:
    """Writes the lines of host planes, one thread each."""

    def __init__(self, space: Space, sink: TraceSink, base_ns: int, report: Callable[[int], None]) -> None:
        self._space = space
        self._sink = sink
        self._base_ns = base_ns
        self._report = report
        self._threads: list[dict[str, object]] = []
        self._nester = Nester()
        self._calls: list[tuple[Plane, _SliceRows, int]] = []  # lines of calls alone
        self._of_program: set[int] = set()  # threads with frames or marks of steps
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
                    "twin_id": None,
                }
            )
            self.line_names.add(line.name)
            self._write_line(plane, line, thread_id, arguments)
            self._report(end)

    def finish(self) -> None:
        """Write the lines of calls, once it is known what surrounds them, and the threads."""
        for plane, rows, thread_id in self._calls:
            self._nest(plane, rows, thread_id)
        self._give_to_steps()
        self._sink.append("threads", pa.Table.from_pylist(self._threads, self._sink.schema("threads")))
        self._space.defects.add("crossing-slices", self._nester.crossing_count)

    def _give_to_steps(self) -> None:
        """Give threads that launch what the program of another one asks for that thread: it is what work waits for."""
        calls: dict[int, list[Int]] = {}
        for piece in self.facts.calls:
            for thread in np.unique(piece["thread"]).tolist():
                calls.setdefault(thread, []).append(piece["start_ns"][piece["thread"] == thread])
        for thread, starts in calls.items():
            if thread in self._of_program:
                continue
            found = thread_of_steps(self.facts.marks, np.concatenate(starts))
            for row in self._threads:
                if found is not None and thread in (row["thread_id"], row["twin_id"]):
                    row["twin_id"] = found

    def _write_line(self, plane: Plane, line: LineHead, thread_id: int, arguments: ArgumentWriter) -> None:
        rows, flows = _LineRows(), list[_Flows]()
        for events in read_events(self._space, plane, line, self._base_ns):
            self._sink.append("event_args", arguments.rows(events))
            starts = start_ns(line, events.offset_ps, self._base_ns)
            flows += self._write_flows(events, starts, thread_id)
            is_memory = write_allocations(self._sink, plane, events, starts, thread_id)
            self.facts.has_memory |= bool(is_memory.any())
            rows.add(plane, events, starts, ~is_memory)
        table = rows.table()
        if table is None:
            return
        self._space.defects.add("repeated-record", rows.repeated_count, f"line {line.name}")
        category = table.category
        has_frames = bool((category == PYTHON).any())
        self.facts.has_stacks |= has_frames
        if has_frames:
            frames = category == PYTHON
            table.dur_ns[frames] = end_open_frames(table.start_ns[frames], table.dur_ns[frames])
        if has_frames or len(table.step_number):
            self._of_program.add(thread_id)
        else:
            category[category == ANNOTATION] = OTHER
        if table.has_correlation.all():
            # Calls on a line of their own: what surrounds them may be on a later line.
            self._calls.append((plane, table, thread_id))
        else:
            self._nest(plane, table, thread_id, flows)

    def _nest(self, plane: Plane, rows: _SliceRows, thread_id: int, flows: Sequence[_Flows] = ()) -> None:
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
            marks = self._write_batch(rows, at, names, thread_id, marks, flows)
        if len(marks[0]):
            facts.marks[thread_id] = (marks[0], marks[1], marks[2])

    def _write_batch(
        self, rows: _SliceRows, at: Int, names: pa.Array[Any], thread_id: int, marks: list[Int], flows: Sequence[_Flows]
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
        nearest = nested.nearest
        ends = slices.start_ns + slices.dur_ns
        around = Enclosed(slices.slice_id, slices.start_ns, ends, (nearest[0], nearest[1], nearest[2]))
        caller = thread_id
        if rows.has_correlation.all():
            caller, found_around = self._surroundings(thread_id, around)
            nearest = (*found_around.nearest, nearest[3])
        else:
            self._note_callers(thread_id, around, named, category, flows)
        columns: dict[str, Any] = {
            "slice_id": pa.array(slices.slice_id),
            "thread_id": pa.array(slices.thread_id),
            "category": pa.DictionaryArray.from_arrays(indices(category), pa.array(CATEGORIES)).cast(pa.string()),
            "raw_category": pa.array([STEP_MARK, None]).take(indices(np.where(is_mark, 0, 1))),
            "name": named,
            "start_ns": pa.array(slices.start_ns),
            "dur_ns": pa.array(slices.dur_ns),
            "correlation": pa.array(rows.correlation[at], mask=~rows.has_correlation[at]),
        }
        self._sink.append("host_slices", pa.table(columns | replace(nested, nearest=nearest).columns()))
        self._note_calls(rows, at, named, slices, nearest, caller)
        found = np.flatnonzero(is_mark)
        for_marks = (slices.slice_id[found], slices.start_ns[found], ends[found])
        return [np.concatenate([old, new]) for old, new in zip(marks, for_marks, strict=True)]

    def _note_calls(
        self, rows: _SliceRows, at: Int, named: pa.Array[Any], slices: Slices, nearest: Sequence[Int], caller: int
    ) -> None:
        """Note the slices that launched work, with what is around them."""
        calls = np.flatnonzero(rows.has_correlation[at])
        if not len(calls):
            return
        self.facts.calls.append(
            {
                "correlation": rows.correlation[at][calls],
                "slice_id": slices.slice_id[calls],
                "start_ns": slices.start_ns[calls],
                "op_id": nearest[0][calls],
                "annotation_id": nearest[1][calls],
                "python_id": nearest[2][calls],
                "thread": np.full(len(calls), caller, np.int64),
                "name": named.take(indices(calls)),
            }
        )

    def _surroundings(self, thread_id: int, calls: Enclosed) -> tuple[int, Enclosed]:
        """Return the thread that shows what surrounds the calls of a line, and what does; the line's own: none."""
        found = self.facts.callers.twin(calls.start_ns, calls.end_ns)
        if found is None:
            return thread_id, calls
        self._threads[thread_id]["twin_id"] = found[0]
        return found

    def _note_callers(
        self, thread_id: int, slices: Enclosed, named: pa.Array[Any], category: Int, flows: Sequence[_Flows]
    ) -> None:
        """Note which slices launch work for compiled programs, and which ask for work or do what was asked for."""
        codes = named.dictionary_encode()
        texts, place = codes.dictionary.to_pylist(), codes.indices.to_numpy()
        runs, calls = (
            np.array([bool(pattern.match(name or "")) for name in texts], np.bool_)[place]
            for pattern in (RUNS_PROGRAM, CALLS_PROGRAM)
        )
        running = slices.taken(np.flatnonzero(runs | (category == CPU_OP)))
        self.facts.callers.add_programs(thread_id, running, slices.taken(np.flatnonzero(calls)))
        order = np.argsort(slices.slice_id)
        ids = slices.slice_id[order]
        for piece in flows:
            at = np.minimum(np.searchsorted(ids, piece.event_id), len(ids) - 1)
            known = ids[at] == piece.event_id
            own = slices.taken(order[at[known]])
            self.facts.callers.add_flows(thread_id, own, piece.flow[known], asks=piece.asks)

    def _with_numbers(
        self, named: pa.Array[Any], rows: _SliceRows, at: Int, is_mark: npt.NDArray[np.bool_]
    ) -> pa.Array[Any]:
        """Return names with the number of the step behind those of marks."""
        texts = named.to_pylist()
        for place in np.flatnonzero(is_mark).tolist():
            texts[place] = f"{texts[place]} {rows.step_number[int(rows.event_id[at[place]])]}"
        return pa.array(texts, pa.string())

    def _write_flows(self, events: LineEvents, starts: Int, thread_id: int) -> list[_Flows]:
        found = []
        for id_name, type_name, phase in (("_p", "_pt", "s"), ("_c", "_ct", "f")):
            owner, ids = events.picker.integers(id_name)
            if not len(owner):
                continue
            kinds = events.picker.values(type_name)
            categories = [_text(kinds.get(event)) for event in owner.tolist()]
            found.append(_Flows(events.event_id[owner], _keys(ids, categories), phase == "s"))
            self._sink.append(
                "flows",
                pa.table(
                    {
                        "event_id": pa.array(events.event_id[owner]),
                        "flow_id": pa.array(ids.view(np.uint64)).cast(pa.string()),
                        "category": pa.array(categories, pa.string()),
                        "phase": pa.array([phase] * len(owner)),
                        "thread_id": pa.array(np.full(len(owner), thread_id)),
                        "start_ns": pa.array(starts[owner]),
                        "binds_enclosing": pa.array(np.ones(len(owner), np.bool_)),
                    }
                ),
            )
        return found


def _keys(ids: Int, categories: list[str | None]) -> Int:
    """Return one number for the type of a flow and its id: an id counts within its type."""
    types = np.array([int(text) if text and text.isdigit() else 0 for text in categories], np.int64)
    with np.errstate(over="ignore"):
        return ids + types * np.int64(-7046029254386353131)


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
        self.repeated_count = 0

    def add(self, plane: Plane, events: LineEvents, starts: Int, kept: npt.NDArray[np.bool_]) -> None:
        picker = events.picker
        count = len(events)
        correlation, has_correlation = np.zeros(count, np.int64), np.zeros(count, np.bool_)
        owner, numbers = picker.integers("correlation_id")
        correlation[owner], has_correlation[owner] = numbers, True
        steps = picker.values(STEP_MARK)
        is_mark = np.zeros(count, np.bool_)
        is_mark[list(steps)] = True
        is_mark &= events.dur_ps > 0  # a mark without a length was left open: no work lies in it
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
        """Return all rows, or None where there are none; of events that stand in the line several times the first."""
        if not self._columns[0]:
            return None
        columns: list[Any] = [np.concatenate(pieces) for pieces in self._columns]
        if not len(columns[0]):
            return None
        event_id, name, start, dur, _, correlation, *_ = columns
        is_repeated = _are_repeated(event_id, name, start, dur, correlation)
        if is_repeated.any():
            self.repeated_count = int(is_repeated.sum())
            columns = [column[~is_repeated] for column in columns]
        event_id, name, start, dur, category, correlation, has_correlation, is_mark = columns
        return _SliceRows(
            event_id, name, start, dur, category, correlation, has_correlation, is_mark, self._step_number
        )


def _are_repeated(event_id: Int, name: Int, start: Int, dur: Int, correlation: Int) -> npt.NDArray[np.bool_]:
    """Tell which events of a line are another one once more; those without a length may be several in one ns."""
    order = np.lexsort((event_id, correlation, name, dur, start))
    is_repeated = np.zeros(len(order), np.bool_)
    same = dur[order[1:]] > 0
    for column in (start, dur, name, correlation):
        same &= column[order[1:]] == column[order[:-1]]
    is_repeated[order[1:]] = same
    return is_repeated


def _categories(
    plane: Plane, events: LineEvents, is_mark: npt.NDArray[np.bool_], has_correlation: npt.NDArray[np.bool_]
) -> Int:
    """Return the category of each event; whether a line has annotations of the user at all shows at its end."""
    category = codes_of_used(events.name, plane.event_names, category_of_name)
    is_own = np.zeros(len(events), np.bool_)
    for name in _OWN_VALUES:
        is_own |= events.picker.has(name)
    category[is_own & (category == ANNOTATION)] = OTHER
    category[events.picker.has("hlo_op") & ~has_correlation] = CPU_OP
    category[has_correlation & (category != RUNTIME)] = DRIVER
    category[is_mark] = ANNOTATION
    return category


def _text(value: object) -> str | None:
    return None if value is None else str(value)
