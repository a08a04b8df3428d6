"""Captures of CUDA graphs: from the beginning of a capture until its graph is ready to be launched."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.host.host_states import PREPROCESS_CODE, is_api
from traceanalyzer.attribution.records.host_slices import HostSlices
from traceanalyzer.attribution.vocabulary.arrow_columns import NO_ROW
from traceanalyzer.attribution.vocabulary.buckets import HOST_CODE, LAUNCH_CODE, LIGHT_CODES, Codes, Ints

_BEGIN = re.compile(r"StreamBeginCapture")
_END = re.compile(r"StreamEndCapture")
_READY = re.compile(r"Graph(Instantiate|ExecUpdate)")
_COMPILE = HOST_CODE["host.compile"]
# States that give way to the capture; calls with a cost of their own, such as allocations, keep their state.
_GIVES_WAY = (*LIGHT_CODES, PREPROCESS_CODE)


@dataclass(frozen=True)
class Captures:
    """Captures in the order of threads and time; `row` is the call that ends each."""

    thread: Ints
    start: Ints
    end: Ints
    row: Ints

    def of_thread(self, thread: int) -> Captures:
        """Return the captures of one thread."""
        mine = self.thread == thread
        return Captures(self.thread[mine], self.start[mine], self.end[mine], self.row[mine])

    def overlay(self, start: Ints, state: Codes, row: Ints, unrecorded: int) -> tuple[Ints, Codes, Ints]:
        """Return the pieces of a thread, each from its start to the next one's, with captured work as host.compile."""
        if not len(self.row):
            return start, state, row
        cuts = np.unique(np.concatenate([start, self.start, self.end]))
        at = np.searchsorted(start, cuts, side="right") - 1
        # Index -1 reads the appended element: the state before the first piece.
        state = np.append(state, np.int8(unrecorded))[at]
        row = np.append(row, NO_ROW)[at]
        capture = np.searchsorted(self.start, cuts, side="right") - 1
        inside = (capture >= 0) & (cuts < self.end[capture]) & np.isin(state, _GIVES_WAY)
        state = np.where(inside, _COMPILE, state).astype(np.int8)
        return cuts, state, np.where(inside, self.row[capture], row)


def find_captures(slices: HostSlices, states: Codes) -> Captures:
    """Return the captures in some threads' slices; `states` holds the state of each slice."""
    calls = [name if is_api(category) else "" for category, name in zip(slices.categories, slices.names, strict=True)]
    begins, ends, readies = (
        slices.flags([bool(pattern.search(name)) for name in calls]) for pattern in (_BEGIN, _END, _READY)
    )
    launches = np.cumsum(states == LAUNCH_CODE)
    captures: list[tuple[int, int, int, int]] = []
    begun, last = NO_ROW, NO_ROW
    for row in np.flatnonzero(begins | ends | readies).tolist():
        if begins[row]:
            begun = row
        elif ends[row] and begun != NO_ROW and slices.thread[begun] == slices.thread[row]:
            captures.append((int(slices.thread[row]), int(slices.start[begun]), int(slices.end[row]), row))
            begun, last = NO_ROW, row
        # A graph may also become ready much later, after other work.
        elif (
            readies[row]
            and last != NO_ROW
            and captures[-1][0] == slices.thread[row]
            and launches[row] == launches[last]
        ):
            captures[-1] = (captures[-1][0], captures[-1][1], int(slices.end[row]), row)
    columns = np.asarray(captures, np.int64).reshape(-1, 4)
    return Captures(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3])
