"""Steps of a trace that marks none: a recurring sequence of launches.

A step is cut between two kernels that follow each other once per repetition; if several pairs do, where the host takes
longest. The kernels of a network also recur, layer by layer. So in PyTorch a repetition counts as a step only if it
does what layers do not: it hands over to another thread for the backward pass. In a program without a framework each
repetition must copy from or to the host, or wait for the device.

Steps of a TPU: the runs of the program that takes most of its time. In profiles of XLA a device may have a line of
steps of its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Self

import duckdb
import numpy as np
from msgspec import Struct
from numpy.typing import NDArray

from traceanalyzer.attribution.columns import NO_ROW, Flags, Ints
from traceanalyzer.attribution.host.blocking_calls import BlockingCalls
from traceanalyzer.attribution.records.device_ops import DeviceOps
from traceanalyzer.attribution.records.host_slices import HostSlices
from traceanalyzer.attribution.steps.steps import DeviceStep, HostStep, drop_steps, numbered

DEVICE_MARKS, PROGRAM_RUNS = "device", "programs"
# A program that ran once is no loop.
_MIN_RUNS = 2

_RUNS_QUERY = r"""
SELECT event_id, REGEXP_REPLACE(name, '\(\d+\)$', '') AS program, start_ns, start_ns + dur_ns AS end_ns
FROM canonical.async_slices
WHERE trace_id = $trace_id AND raw_category = 'XLA Modules' AND dur_ns IS NOT NULL
"""


_MARKS_QUERY = """
SELECT name, start_ns, start_ns + dur_ns
FROM canonical.async_slices
WHERE trace_id = $trace_id AND category = 'derived' AND raw_category = 'Steps' AND dur_ns > 0
  AND pid IN ('/device:GPU:' || $device, '/device:TPU:' || $device)
ORDER BY start_ns, dur_ns DESC, event_id
"""


def device_steps_without_marks(
    con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps
) -> tuple[tuple[DeviceStep, ...], str | None]:
    """Return the steps of a device whose host marks none, and what shows them."""
    if marked := _steps_of_line(con, trace_id, ops):
        return marked, DEVICE_MARKS
    runs = _program_steps(con, trace_id, ops) if ops.of_program.any() else ()
    return runs, PROGRAM_RUNS if runs else None


def _steps_of_line(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> tuple[DeviceStep, ...]:
    """Return the steps on a device's own line: each holds the work, or the runs of programs, that start in it.

    One alone may be cut at both ends.
    """
    rows = con.execute(_MARKS_QUERY, {"trace_id": trace_id, "device": ops.device}).fetchall()
    if len(rows) < _MIN_RUNS:
        return ()
    hosts = numbered(rows)
    begins = np.array([host.start for host in hosts], np.int64)
    starts = ops.start.copy()
    if ops.of_program.any():
        # Operations have the device's clock, steps and runs the host's.
        run_starts = {
            event: start for event, _, start, _ in con.execute(_RUNS_QUERY, {"trace_id": trace_id}).fetchall()
        }
        runs, place = np.unique(ops.run, return_inverse=True)
        own = np.array([run_starts.get(run, NO_ROW) for run in runs.tolist()], np.int64)[place]
        starts = np.where(own == NO_ROW, starts, own)
    step_of = np.searchsorted(begins, starts, side="right") - 1
    order = np.argsort(step_of, kind="stable")
    bounds = np.searchsorted(step_of[order], np.arange(len(hosts) + 1))
    firsts = [int(order[low]) if low < high else None for low, high in pairwise(bounds.tolist())]
    steps = []
    for number, (host, first) in enumerate(zip(hosts, firsts, strict=True)):
        own_rows = order[bounds[number] : bounds[number + 1]]
        following = next((row for row in firsts[number + 1 :] if row is not None), None)
        if first is None:
            steps.append(DeviceStep(host, None, None, 0, False, None, None))
            continue
        end = int(ops.end[own_rows].max()) if following is None else int(ops.start[following])
        steps.append(DeviceStep(host, int(ops.start[first]), end, len(own_rows), False, first, following))
    return drop_steps(steps)


def _program_steps(con: duckdb.DuckDBPyConnection, trace_id: int, ops: DeviceOps) -> tuple[DeviceStep, ...]:
    """Return the steps of a device that runs whole programs, each with why the window drops it, if so.

    A step begins with the first operation of a run and ends where the next step begins, so that smaller programs and
    idle time between two runs belong to the step before; the last one ends with its run.
    """
    known = np.flatnonzero(ops.of_program & (ops.run != NO_ROW))
    if not len(known):
        return ()
    rows = con.execute(_RUNS_QUERY, {"trace_id": trace_id}).fetchall()
    about = {event: (program, start, end) for event, program, start, end in rows}
    firsts, lasts, runs = _runs(ops, known)
    spent: dict[str, int] = {}
    for run, first, last in zip(runs.tolist(), firsts.tolist(), lasts.tolist(), strict=True):
        if run in about:
            spent[about[run][0]] = spent.get(about[run][0], 0) + int(ops.end[last] - ops.start[first])
    if not spent:
        return ()
    largest = max(spent, key=lambda program: (spent[program], program))
    chosen = [place for place, run in enumerate(runs.tolist()) if run in about and about[run][0] == largest]
    if len(chosen) < _MIN_RUNS:
        return ()
    steps = []
    for number, place in enumerate(chosen):
        _, host_start, host_end = about[int(runs[place])]
        first = int(firsts[place])
        following = int(firsts[chosen[number + 1]]) if number + 1 < len(chosen) else None
        end = int(ops.end[lasts[place]]) if following is None else int(ops.start[following])
        count = int(((ops.start >= ops.start[first]) & (ops.start < end)).sum())
        host = HostStep(number, f"{largest} {number}", host_start, host_end)
        steps.append(DeviceStep(host, int(ops.start[first]), end, count, False, first, following))
    return drop_steps(steps)


def _runs(ops: DeviceOps, known: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the first operation of each run, the last one to end, and the run, in the order of time."""
    order = known[np.lexsort((known, ops.run[known]))]
    runs, begin = np.unique(ops.run[order], return_index=True)
    until = np.append(begin[1:], len(order))
    firsts = order[begin]
    lasts = np.asarray(
        [order[low:high][np.argmax(ops.end[order[low:high]])] for low, high in zip(begin, until, strict=True)], np.int64
    )
    by_time = np.argsort(ops.start[firsts], kind="stable")
    return firsts[by_time], lasts[by_time], runs[by_time]


# Fewer repetitions may be chance, and shorter repetitions are loops within a step.
MIN_REPEATS = 4
MIN_KERNELS = 8
# Repetitions are equal, except for a few that logged something, and cover nearly all launches.
MIN_EQUAL_SHARE = 0.8
# In the names of PyTorch's kernels, for traces without recorded operators.
_FRAMEWORK = "at::native"
_BASE = np.uint64(0x9E3779B97F4A7C15)
_BASE_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))


class StretchHashes(Struct, frozen=True):
    """Hashes of stretches of a sequence: equal stretches have equal hashes wherever they lie."""

    before: NDArray[np.uint64]  # of everything before each place
    unshift: NDArray[np.uint64]  # factor that moves a stretch from its place to the beginning

    @classmethod
    def of(cls, sequence: Ints) -> Self:
        """Prepare the hashes of a sequence of non-negative numbers."""
        weighted = (sequence.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(sequence))
        before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
        return cls(before, _powers(_BASE_INVERSE, len(sequence) + 1))

    def __call__(self, first: Ints, last: Ints) -> NDArray[np.uint64]:
        """Return the hash of each stretch [first, last)."""
        hashed: NDArray[np.uint64] = (self.before[last] - self.before[first]) * self.unshift[first]
        return hashed


class _LaunchSequence(Struct, frozen=True):
    """Launch calls of compute in order, each named by its first kernel."""

    kernel: Ints
    thread: Ints
    start: Ints
    end: Ints
    kernels_before: Ints  # number of kernels launched before each launch, and in all
    hashes: StretchHashes

    @property
    def count(self) -> int:
        return len(self.kernel)

    @property
    def changes_of_thread(self) -> Ints:
        """Return the host times at which another thread began to launch."""
        at: Ints = self.start[1:][self.thread[1:] != self.thread[:-1]]
        return at


class _Cut(Struct, frozen=True):
    """Places at which a sequence recurs."""

    at: Ints
    length: int  # kernels of one repetition
    gap: float  # median host time before them


def recurring_steps(
    devices: Sequence[DeviceOps], slices: HostSlices, calls: BlockingCalls
) -> list[tuple[str, int, int]]:
    """Return name, host start and end of each step; empty if no sequence surely recurs."""
    if not devices:
        return []
    ops = max(devices, key=lambda one: int((one.compute & one.linked).sum()))
    launches, names = _launches(ops)
    of_framework = "cpu_op" in slices.categories or any(_FRAMEWORK in (name or "") for name in names)
    evidence = launches.changes_of_thread
    if not of_framework:
        evidence = np.sort(np.concatenate([evidence, ops.launch_start[ops.linked & ops.with_host], calls.start]))
    cuts = [cut for at in _once_a_step(launches) if (cut := _recurs(launches, at, evidence)) is not None]
    if not cuts:
        return []
    # Repetitions are nested: the longest is the step.
    longest = max(cut.length for cut in cuts)
    whole = [(cut.gap, _with_first(launches, cut)) for cut in cuts if cut.length == longest]
    # If a repetition lacks its place, it would be joined with the next repetition.
    _, at = max(whole, key=lambda cut: (len(cut[1]), cut[0], -int(cut[1][0])))
    edges = [*launches.start[at].tolist(), int(launches.end[-1]) + 1]
    return [(f"repetition {i}", start, end) for i, (start, end) in enumerate(pairwise(edges))]


def _launches(ops: DeviceOps) -> tuple[_LaunchSequence, tuple[str | None, ...]]:
    """Return the launches of a device, and the names of its ops."""
    rows = np.flatnonzero(ops.compute & ops.linked)
    _, first, brings = np.unique(ops.launch_id[rows], return_index=True, return_counts=True)
    order = np.argsort(ops.launch_start[rows[first]], kind="stable")
    rows, brings = rows[first][order], brings[order]
    kernel = ops.name.codes[rows]
    return (
        _LaunchSequence(
            kernel=kernel,
            thread=ops.launch_thread[rows],
            start=ops.launch_start[rows],
            end=ops.launch_end[rows],
            kernels_before=np.concatenate([[0], np.cumsum(brings)]),
            hashes=StretchHashes.of(kernel),
        ),
        ops.name.names,
    )


def _powers(base: np.uint64, count: int) -> NDArray[np.uint64]:
    powers: NDArray[np.uint64] = np.multiply.accumulate(np.concatenate([[np.uint64(1)], np.full(count, base)]))[:count]
    return powers


def _once_a_step(launches: _LaunchSequence) -> list[Ints]:
    """Return, for each pair of successive kernels that is neither rare nor frequent, the launches of its second."""
    most = int(launches.kernels_before[-1]) // MIN_KERNELS
    if launches.count <= MIN_REPEATS or most <= MIN_REPEATS:
        return []
    pair = launches.kernel[:-1] * (int(launches.kernel.max()) + 1) + launches.kernel[1:]
    order = np.argsort(pair, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(pair[order]) != 0))
    return [at + 1 for at in np.split(order, first[1:]) if MIN_REPEATS <= len(at) <= most + 1]


def _recurs(launches: _LaunchSequence, at: Ints, evidence: Ints) -> _Cut | None:
    """Return the cuts at some launches if the stretches between them are equal; else None."""
    first, last = at[:-1], at[1:]
    hashes, counts = np.unique(launches.hashes(first, last), return_counts=True)
    equal: Flags = launches.hashes(first, last) == hashes[np.argmax(counts)]
    brings = launches.kernels_before[last] - launches.kernels_before[first]
    length = int(np.median(brings[equal]))
    seen = np.searchsorted(evidence, launches.start[last]) > np.searchsorted(evidence, launches.start[first])
    enough = int(equal.sum()) >= max(MIN_REPEATS - 1, MIN_EQUAL_SHARE * len(first))
    covers = length * (int(equal.sum()) + 1) >= MIN_EQUAL_SHARE * int(launches.kernels_before[-1])
    if length < MIN_KERNELS or not enough or not covers or seen[equal].mean() < MIN_EQUAL_SHARE:
        return None
    return _Cut(at, length, float(np.median(launches.start[at] - launches.end[at - 1])))


def _with_first(launches: _LaunchSequence, cut: _Cut) -> Ints:
    """Return the cuts, with one more at the very first launch if a whole repetition lies before the first cut."""
    (usual,) = launches.hashes(cut.at[:1], cut.at[1:2])
    (ahead,) = launches.hashes(np.zeros(1, np.int64), cut.at[:1])
    return np.concatenate([np.zeros(1, np.int64), cut.at]) if ahead == usual else cut.at
