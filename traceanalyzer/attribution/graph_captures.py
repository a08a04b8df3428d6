"""When threads capture graphs: from the beginning of a capture until its graph is ready to be launched."""

from __future__ import annotations

import re
from dataclasses import dataclass

import numpy as np

from traceanalyzer.attribution.arrow_columns import NO_ROW
from traceanalyzer.attribution.buckets import HOST_CODE, LAUNCH_CODE, LIGHT_CODES, Codes, Ints
from traceanalyzer.attribution.host_slices import HostSlices
from traceanalyzer.attribution.host_states import PREPROCESS_CODE, is_api

_BEGIN = re.compile(r"StreamBeginCapture")
_END = re.compile(r"StreamEndCapture")
_READY = re.compile(r"Graph(Instantiate|ExecUpdate)")
_COMPILE = HOST_CODE["host.compile"]
# Calls that name their own cost, as those that allocate, keep it.
_GIVES_WAY = (*LIGHT_CODES, PREPROCESS_CODE)


@dataclass(frozen=True)
class Captures:
    """Captures in the order of threads and time; `row` is the call that ends each."""

    thread: Ints
    start: Ints
    end: Ints
    row: Ints

    def of_thread(self, thread: int) -> Captures:
        """Return those of one thread."""
        mine = self.thread == thread
        return Captures(self.thread[mine], self.start[mine], self.end[mine], self.row[mine])

    def paint(self, start: Ints, state: Codes, row: Ints, unrecorded: int) -> tuple[Ints, Codes, Ints]:
        """Return the pieces of a thread, each from its start to the next one's, with what it recorded as compiling."""
        if not len(self.row):
            return start, state, row
        cuts = np.unique(np.concatenate([start, self.start, self.end]))
        at = np.searchsorted(start, cuts, side="right") - 1
        # Index -1 finds what is before the first piece at the end.
        state = np.append(state, np.int8(unrecorded))[at]
        row = np.append(row, NO_ROW)[at]
        capture = np.searchsorted(self.start, cuts, side="right") - 1
        inside = (capture >= 0) & (cuts < self.end[capture]) & np.isin(state, _GIVES_WAY)
        state = np.where(inside, _COMPILE, state).astype(np.int8)
        return cuts, state, np.where(inside, self.row[capture], row)


def find_captures(slices: HostSlices, states: Codes) -> Captures:
    """Return the captures of some threads' slices, given what each slice says that its thread was doing."""
    calls = [name if is_api(category) else "" for category, name in zip(slices.categories, slices.names, strict=True)]
    begins, ends, readies = (
        slices.flags([bool(pattern.search(name)) for name in calls]) for pattern in (_BEGIN, _END, _READY)
    )
    launches = np.cumsum(states == LAUNCH_CODE)
    found: list[tuple[int, int, int, int]] = []
    begun, last = NO_ROW, NO_ROW
    for row in np.flatnonzero(begins | ends | readies).tolist():
        if begins[row]:
            begun = row
        elif ends[row] and begun != NO_ROW and slices.thread[begun] == slices.thread[row]:
            found.append((int(slices.thread[row]), int(slices.start[begun]), int(slices.end[row]), row))
            begun, last = NO_ROW, row
        # A graph may also be made ready much later, after other work.
        elif readies[row] and last != NO_ROW and found[-1][0] == slices.thread[row] and launches[row] == launches[last]:
            found[-1] = (found[-1][0], found[-1][1], int(slices.end[row]), row)
    columns = np.asarray(found, np.int64).reshape(-1, 4)
    return Captures(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3])
