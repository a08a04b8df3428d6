"""Steps of a trace that marks none: a sequence of launches that recurs.

A step is cut where one kernel follows another one that it follows once in each repetition; of several such places,
where the host takes longest. The kernels of a network recur too, layer by layer. So a repetition of PyTorch's counts as
a step only if it does what layers do not: it hands over to another thread for the backward pass. Of a program without
such a framework it is enough that each repetition copies from or to the host or waits for the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from traceanalyzer.attribution.arrow_columns import codes_of
from traceanalyzer.attribution.blocking_calls import BlockingCalls
from traceanalyzer.attribution.buckets import Flags, Ints
from traceanalyzer.attribution.device_ops import DeviceOps
from traceanalyzer.attribution.host_slices import HostSlices

# Fewer repetitions may be chance, and shorter ones are loops within a step.
MIN_REPEATS = 4
MIN_KERNELS = 8
# Repetitions are the same sequence, but for a few in which something was logged, and hardly anything lies outside.
MIN_EQUAL_SHARE = 0.8
# PyTorch's kernels, wherever its operators were not recorded.
_FRAMEWORK = "at::native"
_BASE = np.uint64(0x9E3779B97F4A7C15)
_BASE_INVERSE = np.uint64(pow(0x9E3779B97F4A7C15, -1, 2**64))


@dataclass(frozen=True)
class StretchHashes:
    """Hashes of stretches of a sequence, equal where the stretches are, wherever they lie."""

    before: NDArray[np.uint64]  # of everything before each place
    unshift: NDArray[np.uint64]  # factor that moves a stretch which begins at a place to the beginning

    @classmethod
    def of(cls, sequence: Ints) -> Self:
        """Prepare the stretches of a sequence of numbers that are not negative."""
        weighted = (sequence.astype(np.uint64) + np.uint64(1)) * _powers(_BASE, len(sequence))
        before = np.concatenate([np.zeros(1, np.uint64), np.cumsum(weighted, dtype=np.uint64)])
        return cls(before, _powers(_BASE_INVERSE, len(sequence) + 1))

    def __call__(self, first: Ints, last: Ints) -> NDArray[np.uint64]:
        """Return the hash of each stretch [first, last)."""
        hashed: NDArray[np.uint64] = (self.before[last] - self.before[first]) * self.unshift[first]
        return hashed


@dataclass(frozen=True)
class _Launches:
    """Launch calls of compute in their order, each by the kernel that it brings first."""

    kernel: Ints
    thread: Ints
    start: Ints
    end: Ints
    kernels_before: Ints  # how many kernels those before each one bring, and all of them
    hashes: StretchHashes

    @property
    def count(self) -> int:
        """Return how many there are."""
        return len(self.kernel)

    @property
    def changes_of_thread(self) -> Ints:
        """Return the host times at which another thread began to launch."""
        found: Ints = self.start[1:][self.thread[1:] != self.thread[:-1]]
        return found


@dataclass(frozen=True)
class _Cut:
    """Places at which a sequence recurs."""

    at: Ints
    length: int  # kernels of one repetition
    gap: float  # median time of the host ahead of them


def recurring_steps(
    devices: Sequence[DeviceOps], slices: HostSlices, calls: BlockingCalls
) -> list[tuple[str, int, int]]:
    """Return name, host start and end of each step; nothing where no sequence recurs for sure."""
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
    # Repetitions lie within each other: the longest is the step.
    longest = max(cut.length for cut in cuts)
    whole = [(cut.gap, _with_first(launches, cut)) for cut in cuts if cut.length == longest]
    # A place that a round lacks would join it with the next one.
    _, at = max(whole, key=lambda cut: (len(cut[1]), cut[0], -int(cut[1][0])))
    edges = [*launches.start[at].tolist(), int(launches.end[-1]) + 1]
    return [(f"repetition {i}", start, end) for i, (start, end) in enumerate(pairwise(edges))]


def _launches(ops: DeviceOps) -> tuple[_Launches, list[str | None]]:
    """Return the launches of a device, and the names of its ops."""
    rows = np.flatnonzero(ops.compute & ops.linked)
    _, first, brings = np.unique(ops.launch_id[rows], return_index=True, return_counts=True)
    order = np.argsort(ops.launch_start[rows[first]], kind="stable")
    rows, brings = rows[first][order], brings[order]
    kernel, names = codes_of(pa.chunked_array([ops.name]))
    kernel = kernel[rows]
    return (
        _Launches(
            kernel=kernel,
            thread=ops.launch_thread[rows],
            start=ops.launch_start[rows],
            end=ops.launch_end[rows],
            kernels_before=np.concatenate([[0], np.cumsum(brings)]),
            hashes=StretchHashes.of(kernel),
        ),
        names,
    )


def _powers(base: np.uint64, count: int) -> NDArray[np.uint64]:
    powers: NDArray[np.uint64] = np.multiply.accumulate(np.concatenate([[np.uint64(1)], np.full(count, base)]))[:count]
    return powers


def _once_a_step(launches: _Launches) -> list[Ints]:
    """Return the launches of each pair of kernels that follow each other, where it is neither rare nor frequent."""
    most = int(launches.kernels_before[-1]) // MIN_KERNELS
    if launches.count <= MIN_REPEATS or most <= MIN_REPEATS:
        return []
    pair = launches.kernel[:-1] * (int(launches.kernel.max()) + 1) + launches.kernel[1:]
    order = np.argsort(pair, kind="stable")
    first = np.flatnonzero(np.append(True, np.diff(pair[order]) != 0))
    return [at + 1 for at in np.split(order, first[1:]) if MIN_REPEATS <= len(at) <= most + 1]


def _recurs(launches: _Launches, at: Ints, evidence: Ints) -> _Cut | None:
    """Return the cuts at some launches if the stretches between them are the same sequence."""
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


def _with_first(launches: _Launches, cut: _Cut) -> Ints:
    """Return the cuts, with one at the first launch of all if a whole repetition lies ahead of the first of them."""
    (usual,) = launches.hashes(cut.at[:1], cut.at[1:2])
    (ahead,) = launches.hashes(np.zeros(1, np.int64), cut.at[:1])
    return np.concatenate([np.zeros(1, np.int64), cut.at]) if ahead == usual else cut.at
