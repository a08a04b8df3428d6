"""Has the scans of many ranks asked where other processes run: what a rank saves, and when it arrives at collectives.

A task is one question to a share of the devices. It reads their scans from the run's store, where attribution left
them, and sends back a few numbers for each collective and what-if. So the command holds no events of any rank.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

from traceanalyzer.attribution.buckets import Ints
from traceanalyzer.attribution.replay.bounds import ScansOf
from traceanalyzer.attribution.replay.device_bounds import ScanFacts, WindowSaving
from traceanalyzer.attribution.replay.rank_scans import Asked, RankScans, StoredScans, scans_in
from traceanalyzer.attribution.replay.sync_points import Arrivals, Arrived
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.opening.ingesting import LostWorkerError, RunningCode, outcomes
from traceanalyzer.remote.location import Location
from traceanalyzer.store.locating import open_store

# A task has so many devices at least, and more until they have so many events: a pass takes several at once, and a task
# takes milliseconds by itself.
_LEAST_DEVICES = 8
_LEAST_EVENTS = 1 << 16
# What a worker keeps for the next task, of 540 bytes each: it may have little memory.
_KEPT_EVENTS = 200_000

Windows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ScreeningTask:
    """A question (a method of `RankScans`) to some devices of a run whose attribution lies in a store: plain data."""

    question: str
    asked: tuple[Asked, ...]  # by their numbers in `windows`
    more: tuple[Sequence[Ints], ...]  # what the question takes besides
    windows: tuple[Mapping[str, Any], ...]
    worst: tuple[str, ...]  # uncertainties that turn out against fixes
    store: Path | Location
    derived: str  # the name of the folder of the run's attribution
    code: RunningCode  # as in IngestTask


def screen(task: ScreeningTask) -> list[Any]:
    """Return the answer of each device that is asked."""
    task.code.check_here(task.store)
    scans = scans_in(_stored_scans(task.store, task.derived), task.windows)
    for uncertainty in task.worst:
        scans = scans.at_worst(uncertainty)
    return list(getattr(scans, task.question)(task.asked, *task.more))


@lru_cache(maxsize=1)
def _stored_scans(store: Path | Location, derived: str) -> StoredScans:
    opened_store = open_store(store)

    def folder_of(trace_id: int) -> Path:
        found = opened_store.find_rank_folder(derived, str(trace_id))
        if found is not None:
            return found
        if not opened_store.is_whole(whole := opened_store.folder / "derived" / derived):
            raise TraceAnalyzerError("the run's attribution is gone", str(store), "run the command again")
        return whole

    return StoredScans(cache(folder_of), _KEPT_EVENTS)


def scans_of_run(folder: Path, executor: Executor | None, store: Path | Location, derived: str) -> ScansOf:
    """Return what returns the scans of a run's devices, read from a folder with its attribution.

    An `executor` has other processes read them, from the store that holds the attribution under the name `derived`.
    """
    stored = StoredScans(lambda _: folder)
    if executor is None:
        return partial(scans_in, stored)

    def of_workers(windows: Windows) -> RankScans:
        event_counts = [stored.event_count(window["trace_id"]) for window in windows]
        task = partial(ScreeningTask, store=store, derived=derived, code=RunningCode.here())
        return ScansOfWorkers(executor, task, windows, shares_of(event_counts), scans_in(stored, windows))

    return of_workers


def shares_of(event_counts: Sequence[int]) -> list[int]:
    """Return the number of the share that each device is in."""
    shares, devices, events = [0] * len(event_counts), 0, 0
    for number, count in enumerate(event_counts[:-1]):
        devices, events = devices + 1, events + count
        is_full = devices >= _LEAST_DEVICES and events >= _LEAST_EVENTS
        shares[number + 1] = shares[number] + is_full
        if is_full:
            devices = events = 0
    return shares


class ScansOfWorkers(RankScans):
    """Has an executor's processes answer what is asked of many scans; what is asked of one is answered here."""

    def __init__(
        self,
        executor: Executor,
        task: Callable[..., ScreeningTask],
        windows: Windows,
        shares: Sequence[int],
        here: RankScans,
        worst: tuple[str, ...] = (),
    ) -> None:
        super().__init__(here.scan_of, here.window_of)
        self._executor, self._task, self._windows, self._shares, self._worst = executor, task, windows, shares, worst

    def at_worst(self, uncertainty: str) -> RankScans:
        """Return the scans if an uncertainty turns out against fixes."""
        here, worst = super().at_worst(uncertainty), (*self._worst, uncertainty)
        return ScansOfWorkers(self._executor, self._task, self._windows, self._shares, here, worst)

    def facts(self, asked: Sequence[Asked]) -> Iterator[ScanFacts]:
        """Return what is asked again and again of each scan."""
        return self._asked_of_workers("facts", asked)

    def savings(self, asked: Sequence[Asked]) -> Iterator[list[WindowSaving]]:
        """Return what the what-ifs save of each device's window, if nothing changes elsewhere."""
        return self._asked_of_workers("savings", asked)

    def taken(self, asked: Sequence[Asked]) -> Iterator[list[int]]:
        """Return how many ns of host and ops the what-ifs take out of each device's window."""
        return self._asked_of_workers("taken", asked)

    def contract(self, asked: Sequence[Asked]) -> Iterator[Arrivals]:
        """Return the reduced rank of each scan that is asked."""
        return self._asked_of_workers("contract", asked)

    def arrivals(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[Arrived]:
        """Return how each scan that is asked arrives at its sync points, given the leads of these."""
        return self._asked_of_workers("arrivals", asked, leads)

    def whole_savings(self, asked: Sequence[Asked], leads: Sequence[Ints]) -> Iterator[list[int]]:
        """Return what each device's window, which is all of its scan, loses, given the leads of its sync points."""
        return self._asked_of_workers("whole_savings", asked, leads)

    def _asked_of_workers(self, question: str, asked: Sequence[Asked], *more: Sequence[Ints]) -> Iterator[Any]:
        """Yield the answers, in the order of what is asked: by number, so that a share's devices come together."""
        groups = [[*numbers] for _, numbers in groupby(range(len(asked)), lambda nth: self._shares[asked[nth].scan])]
        tasks = [
            self._task(
                question,
                tuple(asked[nth]._replace(scan=at) for at, nth in enumerate(group)),
                tuple([of_asked[nth] for nth in group] for of_asked in more),
                tuple(self._windows[asked[nth].scan] for nth in group),
                self._worst,
            )
            for group in groups
        ]
        answers: dict[int, list[Any]] = {}
        for number, answer in outcomes(self._executor, screen, tasks):
            if isinstance(answer, LostWorkerError):
                raise TraceAnalyzerError(answer.what, None, answer.hint)
            answers[number] = answer
        for number in range(len(tasks)):
            yield from answers.pop(number)
