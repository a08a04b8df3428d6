"""What surrounds calls to the driver that lie on a line of their own, as AMD's do: nothing in the file connects the two
lines of a thread, but all of its calls are made while it runs a compiled program or an operator.

And which thread asked for the work of a thread that only does it: a flow leads there, else the thread runs the steps
in which the work is launched.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.xla.wire import Int

# Where XLA launches the work of a program: what surrounds it is of the thread that launches. And where a thread calls a
# program: others may copy its arguments meanwhile.
RUNS_PROGRAM = re.compile(r"GpuExecutable::ExecuteThunks|.*:XLA GPU module$|\w+::CopyToDeviceHelper::")
CALLS_PROGRAM = re.compile(r"PJRT_LoadedExecutable_Execute$|.*LoadedExecutable::Execute$")
# Of the calls of a line. A copy for a program may be made when the call of the program has returned already.
_MIN_RUNNING_SHARE, _MIN_CALLING_SHARE = 0.95, 0.5
# A call asked for by a thread that was asked itself.
_MOST_HOPS = 4
# How many inner slices that are over already are looked behind for an outer one that is not.
_MOST_STEPS_BACK = 8


class Enclosed(NamedTuple):
    """Slices of one thread, each with the innermost operator, annotation and Python frame around it."""

    slice_id: Int
    start_ns: Int
    end_ns: Int
    nearest: tuple[Int, Int, Int]

    def taken(self, rows: npt.NDArray[np.intp]) -> Enclosed:
        return Enclosed(self.slice_id[rows], self.start_ns[rows], self.end_ns[rows], _of(self.nearest, rows))


def _of(nearest: tuple[Int, Int, Int], rows: npt.NDArray[np.intp]) -> tuple[Int, Int, Int]:
    op, annotation, python = nearest
    return op[rows], annotation[rows], python[rows]


def _joined(pieces: list[Enclosed]) -> Enclosed:
    slice_id, start, end = (np.concatenate([piece[place] for piece in pieces]) for place in range(3))
    op, annotation, python = (np.concatenate([piece.nearest[place] for piece in pieces]) for place in range(3))
    return Enclosed(slice_id, start, end, (op, annotation, python))


def _in_time(slices: Enclosed) -> npt.NDArray[np.intp]:
    """Return the order of slices by their starts, outer ones first."""
    return np.lexsort((-slices.end_ns, slices.start_ns))


def _outermost(slices: Enclosed) -> Enclosed:
    if not len(slices.slice_id):
        return slices
    until = np.maximum.accumulate(slices.end_ns)
    return slices.taken(np.flatnonzero(np.append(True, slices.end_ns[1:] > until[:-1])))


def _around(slices: Enclosed, starts: Int, ends: Int) -> Int:
    """Return for each stretch of time the place of a slice that contains it, or NONE: of nested ones an inner one."""
    found = np.full(len(starts), NONE, np.int64)
    if not len(slices.slice_id):
        return found
    at = np.searchsorted(slices.start_ns, starts, side="right") - 1
    for _ in range(_MOST_STEPS_BACK):
        inside = (found == NONE) & (at >= 0) & (slices.end_ns[np.maximum(at, 0)] >= ends)
        found = np.where(inside, at, found)
        at = at - 1
    return found


def _only_one(
    threads: dict[int, list[Enclosed]], starts: Int, ends: Int, min_share: float
) -> tuple[int, Enclosed] | None:
    """Return the one thread with slices around most of some stretches of time, and what is around each."""
    places: dict[int, tuple[Enclosed, Int]] = {}
    for thread, pieces in threads.items():
        joined = _joined(pieces)
        outer = _outermost(joined.taken(_in_time(joined)))
        places[thread] = (outer, _around(outer, starts, ends))
    counts = {thread: int((at != NONE).sum()) for thread, (_, at) in places.items()}
    best = max(counts.values(), default=0)
    found = [thread for thread, count in counts.items() if count == best]
    if len(found) != 1 or best < max(min_share * len(starts), 1):
        return None
    outer, at = places[found[0]]
    taken = outer.taken(np.maximum(at, 0))
    slice_id, op, annotation, python = (np.where(at == NONE, NONE, ids) for ids in (taken.slice_id, *taken.nearest))
    return found[0], Enclosed(slice_id, taken.start_ns, taken.end_ns, (op, annotation, python))


def thread_of_steps(marks: Mapping[int, tuple[Int, Int, Int]], starts: Int) -> int | None:
    """Return the one thread whose step marks contain most of some calls; None: no thread's do, or several threads'."""
    found = []
    for thread, (_, begins, ends) in marks.items():
        at = np.searchsorted(begins, starts, side="right") - 1
        inside = (at >= 0) & (np.maximum.accumulate(ends)[at] > starts)
        if inside.sum() >= max(_MIN_CALLING_SHARE * len(starts), 1):
            found.append(thread)
    return found[0] if len(found) == 1 else None


@dataclass
class Callers:
    """Collects, thread by thread, what may surround the calls of others."""

    _running: dict[int, list[Enclosed]] = field(default_factory=dict)
    _calling: dict[int, list[Enclosed]] = field(default_factory=dict)
    _requests: dict[int, list[tuple[Enclosed, Int]]] = field(default_factory=dict)
    _asking: list[tuple[Enclosed, Int, Int]] = field(default_factory=list)
    _taken: set[int] = field(default_factory=set)

    def add_programs(self, thread: int, running: Enclosed, calling: Enclosed) -> None:
        """Take slices in which a thread launches the work of programs, and those in which it calls programs."""
        for slices, known in ((running, self._running), (calling, self._calling)):
            if len(slices.slice_id):
                known.setdefault(thread, []).append(slices)

    def add_flows(self, thread: int, slices: Enclosed, flows: Int, *, asks: bool) -> None:
        """Take slices that ask other threads for work, or that do what was asked for."""
        if not len(flows):
            return
        if asks:
            self._asking.append((slices, flows, np.full(len(flows), thread, np.int64)))
        else:
            self._requests.setdefault(thread, []).append((slices, flows))

    def twin(self, starts: Int, ends: Int) -> tuple[int, Enclosed] | None:
        """Return the thread that runs programs around all of these calls, else the one that calls programs around them,
        and what is around each; None: no thread does, or several do."""
        own = _only_one(self._running, starts, ends, _MIN_RUNNING_SHARE)
        if own is not None and own[0] not in self._taken:
            self._taken.add(own[0])
            return own
        return _only_one(self._calling, starts, ends, _MIN_CALLING_SHARE)

    def asked_by(self, thread: Int, starts: Int) -> tuple[Int, Int]:
        """Return the annotation and the Python frame around the call that asked for what a thread does then."""
        annotation, python = np.full(len(starts), NONE, np.int64), np.full(len(starts), NONE, np.int64)
        asking = self._all_asking()
        if asking is None:
            return annotation, python
        slices, flows, threads = asking
        requests = {number: self._requests_of(number) for number in self._requests}
        at_thread, at_ns = thread.copy(), starts.copy()
        is_open = np.ones(len(starts), np.bool_)
        for _ in range(_MOST_HOPS):
            for number in np.unique(at_thread[is_open]).tolist():
                rows = np.flatnonzero(is_open & (at_thread == number))
                is_open[rows] = False
                if number not in requests:
                    continue
                done, wanted = requests[number]
                at = _around(done, at_ns[rows], at_ns[rows])
                rows, at = rows[at != NONE], at[at != NONE]
                place = np.minimum(np.searchsorted(flows, wanted[at]), len(flows) - 1)
                known = flows[place] == wanted[at]
                rows, place = rows[known], place[known]
                annotation[rows], python[rows] = slices.nearest[1][place], slices.nearest[2][place]
                goes_on = (annotation[rows] == NONE) & (python[rows] == NONE) & (threads[place] != number)
                again = rows[goes_on]
                at_thread[again], at_ns[again] = threads[place[goes_on]], slices.start_ns[place[goes_on]]
                is_open[again] = True
        return annotation, python

    def _all_asking(self) -> tuple[Enclosed, Int, Int] | None:
        """Return all that asks others, in the order of flows, with the flow and the thread of each."""
        if not self._asking or not self._requests:
            return None
        flows = np.concatenate([piece[1] for piece in self._asking])
        threads = np.concatenate([piece[2] for piece in self._asking])
        order = np.argsort(flows, kind="stable")
        return _joined([piece[0] for piece in self._asking]).taken(order), flows[order], threads[order]

    def _requests_of(self, thread: int) -> tuple[Enclosed, Int]:
        """Return what a thread does for others, in order of time, and which flow leads to each."""
        slices = _joined([piece[0] for piece in self._requests[thread]])
        flows = np.concatenate([piece[1] for piece in self._requests[thread]])
        order = _in_time(slices)
        return slices.taken(order), flows[order]
