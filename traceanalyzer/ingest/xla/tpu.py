"""Operations of a TPU: the runs of programs that they belong to, on the device's own clock.

What the text of an operation of a compiled program says: what it is, what it moves, and between which memories.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.nesting import NONE, Nester, Slices, id_column
from traceanalyzer.ingest.sink import TraceSink
from traceanalyzer.ingest.xla.events import LineEvents, dur_ns, start_ns
from traceanalyzer.ingest.xla.space import Plane, Space
from traceanalyzer.ingest.xla.stats import Picker, Value, indices
from traceanalyzer.ingest.xla.wire import Int

COLLECTIVE = re.compile(
    r"(?:all-(?=reduce-scatter))?"
    r"(all-reduce|all-gather|reduce-scatter|all-to-all|ragged-all-to-all|collective-permute|collective-broadcast|send|recv)"
)
# `%copy-done.4 = f32[8]{0} copy-done((f32[8]{0}, f32[8]{0:S(5)}, u32[]) %copy-start.4), more="…"`
_HEAD = re.compile(r"%?[\w.$-]+ = ")
_ARRAY = re.compile(r"(pred|bf16|[suf]\d+\w*|c64|c128)\[([\d,]*)\]")
_FIRST_ARRAY = re.compile(r"\(*[^,(]*\[[^\]]*\](?:\{[^}]*\})?")
# Categories of messages to and from the host begin so; collectives between slices of TPUs go through the host.
_WITH_HOST, _BETWEEN_SLICES = "host ", "xla_megascale_runtime"
# XLA gives the host's memory this color.
_HOST_MEMORY = "S(5)"
_TO_DEVICE, _TO_HOST, _ON_DEVICE = "HtoD", "DtoH", "DtoD"
_BITS = {"pred": 8, "c64": 64, "c128": 128}
_MOST_SIDES_CHARS = 200


class Moved(NamedTuple):
    """The direction of a copy, and its bytes; None: not known."""

    copy_kind: str
    size_bytes: int | None


class Meanings(NamedTuple):
    """What operations do: whether they are collectives, which ones where their names do not say it, what they copy."""

    is_comm: list[bool]
    collectives: list[str | None]
    moves: list[Moved | None]


def collective_of(category: str | None, label: str, text: str) -> str | None:
    """Return the collective that an operation is, starts or ends, by its category, else by its name; None: it is none.

    Messages to and from the host are none, except those that carry collectives between slices of TPUs.
    """
    what = _what(category, label)
    if what.startswith(_WITH_HOST) and _BETWEEN_SLICES in text:
        what = what.removeprefix(_WITH_HOST)
    found = COLLECTIVE.match(what)
    return found[1] if found else None


def _what(category: str | None, label: str) -> str:
    return label if category is None or category.startswith("async-") else category


def moved_by(category: str | None, label: str, text: str) -> Moved | None:
    """Return what an operation copies; None: it copies nothing that another operation would run beside.

    The start of a copy takes no time and has no bytes: the end of it, which waits, has them.
    """
    what = _what(category, label)
    if what.startswith(("infeed", "host recv")):
        return Moved(_TO_DEVICE, None if what == "host recv" else _bytes_of(_result(text)))
    if what.startswith(("outfeed", "host send")):
        return Moved(_TO_HOST, None)
    if re.match(r"[a-z-]+-done\b", what):
        return Moved(_direction(_result(text), _operands(text)), _bytes_of(_result(text)))
    if re.match(r"copy-start\b", what):
        result = _result(text)
        first = _FIRST_ARRAY.match(result)
        target = first[0] if first else ""
        return Moved(_direction(target, result[len(target) :]), None)
    if re.match(r"[a-z-]+-start\b", what):
        result, operands = _result(text), _operands(text)
        if _HOST_MEMORY in operands:
            return Moved(_TO_DEVICE, None)
        return Moved(_TO_HOST if _HOST_MEMORY in result else _ON_DEVICE, None)
    return None


def _direction(target: str, source: str) -> str:
    if _HOST_MEMORY in target:
        return _TO_HOST
    return _TO_DEVICE if _HOST_MEMORY in source else _ON_DEVICE


def _result(text: str) -> str:
    """Return the type of the result: up to the name of the operation, outside all parentheses."""
    head = _HEAD.match(text)
    if not head:
        return ""
    rest = text[head.end() :]
    if not rest.startswith("("):
        return rest.partition(" ")[0]
    return rest[: _closed(rest)]


def _operands(text: str) -> str:
    head = _HEAD.match(text)
    rest = text[head.end() + len(_result(text)) :] if head else ""
    opened = rest.find("(")
    return "" if opened < 0 else rest[opened : opened + _closed(rest[opened:])]


def _closed(text: str) -> int:
    """Return how long the text is up to the parenthesis that closes its first one."""
    depth = 0
    for place, letter in enumerate(text):
        depth += (letter == "(") - (letter == ")")
        if depth == 0:
            return place + 1
    return len(text)


def _bytes_of(shape: str) -> int | None:
    """Return the bytes of all arrays of a type; None where it has none that is known."""
    bits = 0
    for kind, sides in _ARRAY.findall(shape):
        width = _BITS.get(kind) or int(re.sub(r"\D*(\d+).*", r"\1", kind))
        if len(sides) > _MOST_SIDES_CHARS:
            return None
        for side in filter(None, sides.split(",")):
            width *= int(side)
        bits += width
    size = bits // 8
    return size if 0 < size < 2**50 else None


OPS, RUNS = "XLA Ops", "XLA Modules"


@dataclass
class ProgramRuns:
    """The runs of programs on a device, by the host's clock; they follow each other."""

    pieces: list[tuple[Int, Int, Int]] = field(default_factory=list)
    events: list[LineEvents] = field(default_factory=list)

    def add(self, events: LineEvents) -> None:
        """Take the events of the line of runs."""
        begins = events.offset_ps + events.line.timestamp_ns * 1000
        self.pieces.append((events.event_id, begins, begins + events.dur_ps))
        self.events.append(events)

    def as_ops(self, ops: TpuOps) -> TpuOps:
        """Return operations with a run of a program for each: what stands for the work where no operation is shown."""
        for events in self.events:
            ops.add(events)
            ops.space.defects.add("programs-as-work", len(events))
        return ops

    def find(self, at_ps: Int) -> Int:
        """Return the run in which each instant lies, or NONE."""
        if not self.pieces:
            return np.full(len(at_ps), NONE, np.int64)
        ids, begins, ends = (np.concatenate(column) for column in zip(*self.pieces, strict=True))
        order = np.argsort(begins, kind="stable")
        ids, begins, ends = ids[order], begins[order], ends[order]
        place = np.maximum(np.searchsorted(begins, at_ps, side="right") - 1, 0)
        inside = (begins[place] <= at_ps) & (at_ps <= ends[place])
        return np.where(inside, ids[place], NONE)


class TpuOps:
    """Collects the operations of one line, and writes them once it is known which of them contain others."""

    def __init__(self, space: Space, plane: Plane, device: int, base_ns: int, runs: ProgramRuns) -> None:
        self.space = space
        self._plane = plane
        self._device = device
        self._base_ns = base_ns
        self._runs = runs
        self._pieces: list[tuple[Int, ...]] = []

    def add(self, events: LineEvents) -> None:
        """Take a batch of events of the line."""
        offset_ps, dur_ps = self._device_clock(events)
        run = self._runs.find(events.offset_ps + events.line.timestamp_ns * 1000)
        starts = start_ns(events.line, offset_ps, self._base_ns)
        self._pieces.append((events.event_id, events.name, starts, dur_ns(offset_ps, dur_ps), run))

    def write(self, sink: TraceSink) -> tuple[Int, Int]:
        """Write all operations; return their starts and lengths."""
        if not self._pieces:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        event_id, name, starts, lengths, run = (np.concatenate(column) for column in zip(*self._pieces, strict=True))
        names, meaning = _meanings(self.space, self._plane)
        inside = time_inside(event_id, starts, lengths)
        kinds = [moved.copy_kind if moved else None for moved in meaning.moves]
        sizes = [moved.size_bytes if moved else None for moved in meaning.moves]
        labels: Any = pa.array(names, pa.string()).take(indices(name))
        sink.append(
            "gpu_ops",
            pa.table(
                {
                    "op_id": pa.array(event_id),
                    "device": pa.array(np.full(len(event_id), self._device)),
                    "kind": pa.array(["op"] * len(event_id)),
                    "is_comm": pa.array(np.array(meaning.is_comm or [False], np.bool_)[name]),
                    "collective": pa.array(meaning.collectives, pa.string()).take(indices(name)),
                    "name": labels,
                    "start_ns": pa.array(starts),
                    "dur_ns": pa.array(lengths),
                    "self_ns": pa.array(np.maximum(lengths - inside, 0), mask=inside == 0),
                    "run_id": id_column(run),
                    "size_bytes": pa.array(sizes, pa.int64()).take(indices(name)),
                    "copy_kind": pa.array(kinds, pa.string()).take(indices(name)),
                    "hlo_op": labels,
                }
            ),
        )
        return starts, lengths

    def _device_clock(self, events: LineEvents) -> tuple[Int, Int]:
        """Return starts and lengths by the device's own clock, where an operation has both."""
        offset_ps, dur_ps = events.offset_ps.copy(), events.dur_ps.copy()
        owner, offsets = events.picker.integers("device_offset_ps")
        measured, lengths = events.picker.integers("device_duration_ps")
        rows, in_owner, in_measured = np.intersect1d(owner, measured, return_indices=True)
        if len(rows):
            since = offsets[in_owner] - events.line.timestamp_ns * 1000
            far = np.maximum(np.abs(since - offset_ps[rows]), np.abs(lengths[in_measured] - dur_ps[rows]))
            self.space.clocks_apart_ps = max(self.space.clocks_apart_ps, int(far.max()))
            self.space.defects.add("device-clock-mapped", len(rows))
            self.space.defects.examples["device-clock-mapped"] = f"{self.space.clocks_apart_ps / 1e9:.1f} ms"
            offset_ps[rows], dur_ps[rows] = since, np.maximum(lengths[in_measured], 0)
        return offset_ps, dur_ps


def write_ends_of_flows(sink: TraceSink, events: LineEvents, base_ns: int) -> None:
    """Write the flows that lead from the calls of the host to the runs of programs."""
    owner, ids = events.picker.integers("_c")
    kinds = events.picker.values("_ct")
    starts = start_ns(events.line, events.offset_ps, base_ns)
    sink.append(
        "flows",
        pa.table(
            {
                "event_id": pa.array(events.event_id[owner]),
                "flow_id": pa.array(ids.view(np.uint64)).cast(pa.string()),
                "category": pa.array([str(kinds.get(event) or "") or None for event in owner.tolist()], pa.string()),
                "phase": pa.array(["f"] * len(owner), pa.string()),
                "start_ns": pa.array(starts[owner]),
                "binds_enclosing": pa.array(np.ones(len(owner), np.bool_)),
            }
        ),
    )


def _meanings(space: Space, plane: Plane) -> tuple[list[str], Meanings]:
    """Return the names of a plane's operations as they are shown, and what these do."""
    labels = [plane.label(place).removeprefix("%").partition(" = ")[0] for place in range(len(plane.event_names))]
    categories = values_of_names(space, plane, "hlo_category")
    known = [str(categories[place]) if categories.get(place) is not None else None for place in range(len(labels))]
    return labels, meanings_of(list(zip(known, labels, plane.event_names, strict=True)))


def meanings_of(ops: Sequence[tuple[str | None, str, str]]) -> Meanings:
    """Return what operations do, each of which is a category, a name and its text."""
    collectives = [collective_of(*op) for op in ops]
    return Meanings(
        [found is not None for found in collectives],
        [found if found and not COLLECTIVE.match(op[1]) else None for found, op in zip(collectives, ops, strict=True)],
        [None if found else moved_by(*op) for found, op in zip(collectives, ops, strict=True)],
    )


def time_inside(event_id: Int, starts: Int, lengths: Int) -> Int:
    """Return for each operation the time of those that run directly in it: loops and calls contain what they run."""
    order = np.lexsort((event_id, -lengths, starts))
    none = np.full(len(order), NONE, np.int64)
    zero = np.zeros(len(order), np.int64)
    nested = Nester().feed(Slices(order, zero, starts[order], lengths[order], none, zero))
    ends = starts + lengths
    has_parent = (nested.parent_id != NONE) & (ends[order] <= ends[nested.parent_id])
    inside = np.zeros(len(order), np.int64)
    np.add.at(inside, nested.parent_id[has_parent], lengths[order][has_parent])
    return inside


def values_of_names(space: Space, plane: Plane, key: str) -> dict[int, Value]:
    """Return what the names of a plane carry under a key, by their places."""
    return Picker(space, plane, plane.event_stats, len(plane.event_names)).values(key)
