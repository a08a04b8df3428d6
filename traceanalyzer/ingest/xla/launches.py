"""The calls that work may name, by correlation id, and the steps in which they were made; what else devices show."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from traceanalyzer.ingest.device_check import CLOCK_NS, SLOW_LAUNCH_NS
from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.nsys.host_slices import MOST_CALLS_OF_ID
from traceanalyzer.ingest.xla.host import HostFacts
from traceanalyzer.ingest.xla.stats import indices
from traceanalyzer.ingest.xla.wire import Int

# Numbers that stand for no id: 0, and -1 in 32 and in 64 bits.
_NO_IDS = (0, -1, 2**32 - 1)


@dataclass
class DeviceFacts:
    """What the devices' planes show beside their work."""

    rows: dict[int, dict[str, object]] = field(default_factory=dict)
    op_count: int = 0
    first_ns: int | None = None
    last_ns: int | None = None
    has_overlaps: bool = False  # work of a stream that lasts into the next one of it
    vendor: str | None = None
    has_memory: bool = False  # the driver's allocations
    # Of each device, when calls began, by how much later what they launched, and the calls.
    launches: dict[int, list[tuple[Int, Int, Int]]] = field(default_factory=dict)

    def shares_launches(self) -> bool:
        """Tell whether a call launched several pieces of work."""
        calls = np.concatenate([np.empty(0, np.int64), *(ids for own in self.launches.values() for *_, ids in own)])
        return len(np.unique(calls)) < len(calls)

    def clocks_may_differ(self) -> bool:
        """Tell whether a device starts work before its launch, always late, or sooner in one half of the recording."""
        for pieces in self.launches.values():
            called, delays, _ = (np.concatenate(columns) for columns in zip(*pieces, strict=True))
            is_early = called < (int(called.min()) + int(called.max()) + 1) // 2
            sides = [int(delays[side].min()) for side in (is_early, ~is_early) if side.any()]
            if not -CLOCK_NS <= min(sides) <= SLOW_LAUNCH_NS or max(sides) - min(sides) > CLOCK_NS // 4:
                return True
        return False


class ModuleLaunches:
    """Finds the call that launched work: the first one of its correlation id, where a few share it."""

    def __init__(self, facts: HostFacts) -> None:
        self.has_memory = facts.has_memory
        empty = np.empty(0, np.int64)
        pieces = facts.calls
        columns = {
            name: np.concatenate([piece[name] for piece in pieces]) if pieces else empty
            for name in ("correlation", "slice_id", "start_ns", "op_id", "annotation_id", "python_id", "thread")
        }
        order = np.lexsort((columns["slice_id"], columns["start_ns"], columns["correlation"]))
        ordered = columns["correlation"][order]
        if len(order):
            firsts = np.flatnonzero(np.append(True, ordered[1:] != ordered[:-1]))
            is_id = np.diff(np.append(firsts, len(order))) <= MOST_CALLS_OF_ID
            order = order[firsts[is_id & ~np.isin(ordered[firsts], _NO_IDS)]]
        self._columns = {name: column[order] for name, column in columns.items()}
        names = (
            pa.chunked_array([piece["name"] for piece in pieces], pa.string())
            if pieces
            else pa.chunked_array([[]], pa.string())
        )
        self.names = names.take(indices(order))
        self._marks = _step_marks(facts)
        self._follow_flows(facts)

    def _follow_flows(self, facts: HostFacts) -> None:
        """Give launches of threads that only do what others ask for the surroundings of the call that asked."""
        columns = self._columns
        alone = np.flatnonzero((columns["annotation_id"] == NONE) & (columns["python_id"] == NONE))
        annotation, python = facts.callers.asked_by(columns["thread"][alone], columns["start_ns"][alone])
        columns["by_flow"] = np.zeros(len(columns["slice_id"]), np.int64)
        columns["by_flow"][alone] = (annotation != NONE) | (python != NONE)
        columns["annotation_id"][alone], columns["python_id"][alone] = annotation, python

    def find(self, correlation: Int, known: npt.NDArray[np.bool_]) -> Int:
        """Return the place of the launch of each piece of work, or NONE."""
        ids = self._columns["correlation"]
        if not len(ids):
            return np.full(len(correlation), NONE, np.int64)
        at = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
        return np.where(known & (ids[at] == correlation), at, NONE)

    def column(self, name: str, at: Int) -> Int:
        """Return a column of the launches at places, NONE where there is none."""
        values = self._columns[name]
        return (
            np.where(at != NONE, values[np.maximum(at, 0)], NONE) if len(values) else np.full(len(at), NONE, np.int64)
        )

    def step_at(self, starts: Int) -> Int:
        """Return the step mark in which each instant lies, or NONE."""
        ids, begins, ends = self._marks
        if not len(ids):
            return np.full(len(starts), NONE, np.int64)
        at = np.searchsorted(begins, starts, side="right") - 1
        inside = (at >= 0) & (starts < ends[np.maximum(at, 0)])
        return np.where(inside, ids[np.maximum(at, 0)], NONE)


def _step_marks(facts: HostFacts) -> tuple[Int, Int, Int]:
    """Return the outermost marks of the thread that has most of them."""
    empty = np.empty(0, np.int64)
    best = (empty, empty, empty)
    for ids, starts, ends in facts.marks.values():
        until = np.maximum.accumulate(ends) if len(ends) else ends
        outer = np.append(True, starts[1:] >= until[:-1]) if len(ends) else np.empty(0, np.bool_)
        if int(outer.sum()) > len(best[0]):
            best = (ids[outer], starts[outer], ends[outer])
    return best
