"""The calls that GPU work may name, found by process and correlation id: arrays take a quarter of a join's memory."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, cast

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from traceanalyzer.ingest.nesting import NONE, Int
from traceanalyzer.ingest.nsys.masks import Column

# What a call says about the GPU work that it launched, as ids of slices.
LINKS = ("launch_id", "cpu_op_id", "annotation_id")


@dataclass(frozen=True)
class Calls:
    """Some calls of one process: correlation ids, starts, and what LINKS says."""

    correlation: npt.NDArray[Any]
    start_ns: Int
    links: tuple[Int, ...]


class Launches:
    """Collects calls, then finds the call that launched GPU work: the first one, where several share an id."""

    def __init__(self, event_count: int) -> None:
        self._id_type = np.dtype(np.int32 if event_count < 2**31 else np.int64)
        self._processes: dict[int, _ProcessCalls] = {}

    def add(self, scope: int, calls: Calls) -> None:
        """Note calls of a process."""
        self._processes.setdefault(scope, _ProcessCalls()).add(calls, self._id_type)

    def close(self) -> int:
        """Make the calls ready to be found, and return how many share an id with an earlier one."""
        return sum(process.close() for process in self._processes.values())

    def find(self, scopes: Column, correlations: Column) -> list[Column]:
        """Return what LINKS says of the calls of some GPU work; NULL where there is none."""
        scope, correlation = _integers(scopes), _integers(correlations)
        found = [np.full(len(scope), NONE, np.int64) for _ in LINKS]
        for process in np.unique(scope).tolist():
            if process in self._processes:
                rows = np.flatnonzero(scope == process)
                for ids, own in zip(found, self._processes[process].find(correlation[rows]), strict=True):
                    ids[rows] = own
        return [pa.array(ids, mask=ids == NONE) for ids in found]


class _ProcessCalls:
    """The calls of one process; columns are correlation ids, starts and LINKS."""

    def __init__(self) -> None:
        self._pieces: list[list[npt.NDArray[Any]]] = [[] for _ in range(2 + len(LINKS))]
        self._correlation = np.empty(0, np.uint32)
        self._links: list[npt.NDArray[Any]] = []

    def add(self, calls: Calls, id_type: np.dtype[Any]) -> None:
        links = [ids.astype(id_type) for ids in calls.links]
        columns: list[npt.NDArray[Any]] = [calls.correlation, calls.start_ns, *links]
        for pieces, column in zip(self._pieces, columns, strict=True):
            pieces.append(column)

    def close(self) -> int:
        correlation = self._joined(0)
        # A single thread numbers its calls one after the other.
        if (correlation[1:] > correlation[:-1]).all():
            self._pieces[1] = []
            self._correlation = correlation
            self._links = [self._joined(place) for place in range(2, len(self._pieces))]
            return 0
        starts, launch_ids = self._joined(1), self._joined(2)
        order = np.argsort(correlation, kind="stable")
        ordered = correlation[order]
        repeats = ordered[1:] == ordered[:-1]
        if repeats.any():
            order = np.lexsort((launch_ids, starts, correlation))[np.append(True, ~repeats)]
            ordered = correlation[order]
        del correlation, starts
        self._correlation = ordered
        self._links = [launch_ids[order], *(self._joined(place)[order] for place in range(3, len(self._pieces)))]
        return int(repeats.sum())

    def find(self, correlation: Int) -> list[Int]:
        # Of the same type: another one would have all of them converted for every search.
        wanted = correlation.astype(self._correlation.dtype)
        at = np.minimum(np.searchsorted(self._correlation, wanted), len(self._correlation) - 1)
        is_known = self._correlation[at] == correlation
        return [np.where(is_known, ids[at], NONE) for ids in self._links]

    def _joined(self, place: int) -> npt.NDArray[Any]:
        """Return a column in one piece, and forget its pieces."""
        column = np.concatenate(self._pieces[place])
        self._pieces[place] = []
        return column


def _integers(column: Column) -> Int:
    return cast("Column", pc.call_function("coalesce", [column, pa.scalar(NONE)])).to_numpy()
