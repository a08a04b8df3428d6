"""Has the traces of a run attributed: each is a task, which threads of this process run, or any other executor.

A rank needs of the others how long it waited for them in collectives, and nothing else. So the collectives are matched
first, in one place. Other processes leave what they compute in the run's store, under `ranks`.

Scans of many ranks are asked where other processes run, too: what a rank saves, and when it arrives at collectives. A
task is one question to a share of the devices. It reads their scans from the run's store, where attribution left them,
and sends back a few numbers for each collective and what-if. So the command holds no events of any rank.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass
from functools import cache, lru_cache, partial
from itertools import groupby
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from msgspec.structs import asdict

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.attribution.columns import DeviceKey, Ints
from traceanalyzer.attribution.matching_collectives import CommWaits
from traceanalyzer.attribution.replay.bounds import ScansOf
from traceanalyzer.attribution.replay.device_bounds import (
    RankScans,
    ScanFacts,
    ScanQuery,
    StoredScans,
    scans_in,
)
from traceanalyzer.attribution.replay.sync_points import Arrived, ReducedCalls
from traceanalyzer.attribution.run_tables import Owned, table_of
from traceanalyzer.attribution.tables import READS, Matched, RankTables, attribute
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline.finding import open_store
from traceanalyzer.pipeline.ingesting import LostWorkerError, RunningCode, outcomes
from traceanalyzer.process import give_memory_back
from traceanalyzer.query.canonical import FewTracesConnections
from traceanalyzer.remote.location import Location
from traceanalyzer.schema import parquet_options
from traceanalyzer.store.inputs import StoredTrace
from traceanalyzer.store.store import MATCHED, Store

_MEMBERS, _WAITS, _TRACES, _OWNED = "collective_members.parquet", "waits.parquet", "traces.json", "owned.json"
_OF_WAITS = pa.schema(
    {"device": pa.int32(), "op_id": pa.int64(), "match_id": pa.int64(), "wait_ns": pa.int64(), "last_rank": pa.int32()}
)

# Attribution holds some 350 bytes a host slice of a trace: more slices at once would take more than half a gigabyte.
_SLICES_AT_ONCE = 1_500_000
# So many small traces share the planning of what copies them into memory.
_SMALL_AT_ONCE = 8


@dataclass(frozen=True)
class AttributionTask:
    """One trace of a run to be attributed into the run's store, where its collectives lie matched: plain data."""

    trace: StoredTrace
    trace_id: int  # its number in the run
    options: AttributionOptions
    store: Path | Location
    derived: str  # the name of the folder that all traces of the run are put into
    code: RunningCode | None = None  # as in IngestTask


def attribute_source(task: AttributionTask) -> bool:
    """Attribute one trace, unless the store has it; return whether it was there."""
    if task.code is not None:
        task.code.check_here(task.store)
    opened_store = open_store(task.store)
    trace = task.trace.below(opened_store.folder)

    def compute(scratch: Path) -> None:
        matched = opened_store.find_rank_folder(task.derived, MATCHED)
        if matched is None:
            raise TraceAnalyzerError("the run's matched collectives are gone", str(task.store), "run the command again")
        opened_store.written_elsewhere(trace.folder.parent.name)
        waits = read_waits(matched, task.trace_id)
        with (
            closing(FewTracesConnections({task.trace_id: trace}, READS)) as connections,
            connections.holding([task.trace_id]) as connection,
        ):
            write_rank(scratch, attribute(connection, task.trace_id, task.options, waits))

    return opened_store.rank_folder(task.derived, str(task.trace_id), [trace.folder], compute)[1]


def in_threads(
    opened_store: Store, derived: str, traces: Sequence[StoredTrace], options: AttributionOptions, jobs: int
) -> Callable[[Matched], Iterable[RankTables]]:
    """Return what attributes traces in threads of this process; what other processes left in the store is read."""

    def attributed(matched: Matched) -> Iterator[RankTables]:
        def some(trace_ids: Sequence[int]) -> list[RankTables]:
            found = {number: opened_store.find_rank_folder(derived, str(number)) for number in trace_ids}
            tables = {number: read_rank(folder, number) for number, folder in found.items() if folder is not None}
            missing = [number for number in trace_ids if number not in tables]
            if missing:
                with connections.holding(missing) as connection:
                    tables |= {number: attribute(connection, number, options, matched.waits) for number in missing}
            if at_once == 1:
                give_memory_back()
            return [tables[number] for number in trace_ids]

        at_once = min(jobs, _at_once(traces))
        with (
            closing(FewTracesConnections(dict(enumerate(traces)), READS)) as connections,
            ThreadPoolExecutor(at_once) as pool,
        ):
            of_each = min(_SMALL_AT_ONCE, -(-len(matched.trace_ids) // at_once))
            for tables in pool.map(some, connections.groups(matched.trace_ids, of_each)):
                yield from tables

    return attributed


def _at_once(traces: Sequence[StoredTrace]) -> int:
    """Return how many of these traces are attributed side by side, so that memory does not grow with their size."""
    files = [file for trace in traces if (file := trace.folder / "host_slices.parquet").is_file()]
    most = max((pq.read_metadata(file).num_rows for file in files), default=0)
    return max(1, _SLICES_AT_ONCE // max(1, most))


def in_processes(
    opened_store: Store, derived: str, traces: Sequence[StoredTrace], options: AttributionOptions, executor: Executor
) -> Callable[[Matched], Iterable[RankTables]]:
    """Return what has an executor's processes attribute traces into the store."""

    def attributed(matched: Matched) -> Iterator[RankTables]:
        keep_matched(opened_store, derived, traces, lambda: matched)
        code = RunningCode.here()
        missing = [
            number for number in matched.trace_ids if opened_store.find_rank_folder(derived, str(number)) is None
        ]
        tasks = [
            AttributionTask(traces[number], number, options, opened_store.place, derived, code) for number in missing
        ]
        for nth, answer in outcomes(executor, attribute_source, tasks):
            number = missing[nth]
            if isinstance(answer, LostWorkerError):
                raise TraceAnalyzerError(answer.what, str(traces[number].path), answer.hint)
            opened_store.rank_written_elsewhere(derived, str(number))
        for number in matched.trace_ids:
            yield read_rank(opened_store.rank_written_elsewhere(derived, str(number)), number)

    return attributed


def keep_matched(
    opened_store: Store, derived: str, traces: Sequence[StoredTrace], matching: Callable[[], Matched]
) -> tuple[int, ...]:
    """Have the store hold a run's matched collectives, where its ranks find them; return the traces with GPU work."""

    def write(scratch: Path) -> None:
        matched = matching()
        of_traces: dict[int, dict[DeviceKey, CommWaits]] = defaultdict(dict)
        for device_key, own in matched.waits.items():
            of_traces[device_key[0]][device_key] = own
        _write(matched.members, scratch / _MEMBERS)
        with pq.ParquetWriter(scratch / _WAITS, _OF_WAITS, **parquet_options(_OF_WAITS)) as writer:
            for trace_id in range(len(traces)):  # a row group each, so that a rank reads its own alone
                writer.write_table(_waits_table(of_traces[trace_id]))
        (scratch / _TRACES).write_text(json.dumps(matched.trace_ids))

    folder, _ = opened_store.rank_folder(derived, MATCHED, [trace.folder for trace in traces], write)
    return tuple(json.loads((folder / _TRACES).read_text()))


def kept_matched(opened_store: Store, derived: str) -> Matched | None:
    """Return the matched collectives that other processes left in the store; None where there are none."""
    folder = opened_store.find_rank_folder(derived, MATCHED)
    if folder is None:
        return None
    trace_ids = tuple(json.loads((folder / _TRACES).read_text()))
    waits: dict[DeviceKey, CommWaits] = {}
    for trace_id in trace_ids:
        waits |= read_waits(folder, trace_id)
    return Matched(pq.ParquetFile(folder / _MEMBERS).read(), waits, trace_ids)


def _waits_table(of_trace: Mapping[DeviceKey, CommWaits]) -> pa.Table:
    rows = [
        (device, op_id, match_id, own.wait_ns[op_id], own.last_rank[op_id])
        for (_, device), own in of_trace.items()
        for op_id, match_id in own.match_id.items()
    ]
    return table_of(rows, _OF_WAITS)


def read_waits(matched: Path, trace_id: int) -> dict[DeviceKey, CommWaits]:
    """Return how long each device of a trace waited in collectives."""
    by_device: dict[int, list[dict[str, int]]] = defaultdict(list)
    for row in pq.ParquetFile(matched / _WAITS).read_row_group(trace_id).to_pylist():
        by_device[row["device"]].append(row)
    return {
        (trace_id, device): CommWaits(
            {row["op_id"]: row["match_id"] for row in rows},
            {row["op_id"]: row["wait_ns"] for row in rows},
            {row["op_id"]: row["last_rank"] for row in rows},
        )
        for device, rows in by_device.items()
    }


def write_rank(folder: Path, rank: RankTables) -> None:
    """Write what attribution says of one trace."""
    for name, table in rank.tables.items():
        _write(table, folder / f"{name}.parquet")
    owned = [
        [device, cause, asdict(own)] for (_, device), causes in rank.owned.items() for cause, own in causes.items()
    ]
    (folder / _OWNED).write_text(json.dumps([[device for _, device in rank.owned], owned]))


def read_rank(folder: Path, trace_id: int) -> RankTables:
    """Return what `write_rank` wrote."""
    devices, rows = json.loads((folder / _OWNED).read_text())
    owned: dict[DeviceKey, dict[str, Owned]] = {(trace_id, device): {} for device in devices}
    for device, cause, own in rows:
        owned[trace_id, device][cause] = Owned(**own)
    tables = {file.stem: pq.ParquetFile(file).read() for file in folder.glob("*.parquet")}
    return RankTables(tables, owned)


def _write(table: pa.Table, file: Path) -> None:
    pq.write_table(table, file, **parquet_options(table.schema))


# A task has so many devices at least, and more until they have so many events: a pass takes several at once, and a task
# takes milliseconds by itself.
_LEAST_DEVICES = 8
_LEAST_EVENTS = 1 << 16
# What a worker keeps for the next task, of 540 bytes each: it may have little memory.
_KEPT_EVENTS = 200_000

Windows = Sequence[Mapping[str, Any]]


@dataclass(frozen=True)
class ScanTask:
    """A question (a method of `RankScans`) to some devices of a run whose attribution lies in a store: plain data."""

    question: str
    queries: tuple[ScanQuery, ...]  # by their numbers in `windows`
    more: tuple[Sequence[Ints], ...]  # what the question takes besides
    windows: tuple[Mapping[str, Any], ...]
    worst: tuple[str, ...]  # uncertainties that turn out against fixes
    store: Path | Location
    derived: str  # the name of the folder of the run's attribution
    code: RunningCode  # as in IngestTask


def answer_scans(task: ScanTask) -> list[Any]:
    """Return the answer of each device that is asked."""
    task.code.check_here(task.store)
    scans = scans_in(_stored_scans(task.store, task.derived), task.windows)
    for uncertainty in task.worst:
        scans = scans.at_worst(uncertainty)
    return list(getattr(scans, task.question)(task.queries, *task.more))


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
        task = partial(ScanTask, store=store, derived=derived, code=RunningCode.here())
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
        task: Callable[..., ScanTask],
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

    def facts(self, queries: Sequence[ScanQuery]) -> Iterator[ScanFacts]:
        return self._query_workers("facts", queries)

    def savings(self, queries: Sequence[ScanQuery]) -> Iterator[list[int]]:
        return self._query_workers("savings", queries)

    def taken(self, queries: Sequence[ScanQuery]) -> Iterator[list[int]]:
        return self._query_workers("taken", queries)

    def reduce_scans(self, queries: Sequence[ScanQuery]) -> Iterator[ReducedCalls]:
        return self._query_workers("reduce_scans", queries)

    def arrivals(self, queries: Sequence[ScanQuery], shifts: Sequence[Ints]) -> Iterator[Arrived]:
        return self._query_workers("arrivals", queries, shifts)

    def whole_savings(self, queries: Sequence[ScanQuery], shifts: Sequence[Ints]) -> Iterator[list[int]]:
        return self._query_workers("whole_savings", queries, shifts)

    def _query_workers(self, question: str, queries: Sequence[ScanQuery], *more: Sequence[Ints]) -> Iterator[Any]:
        """Yield the answers, in the order of what is asked: by number, so that a share's devices come together."""
        groups = [
            [*numbers] for _, numbers in groupby(range(len(queries)), lambda nth: self._shares[queries[nth].scan])
        ]
        tasks = [
            self._task(
                question,
                tuple(queries[nth]._replace(scan=at) for at, nth in enumerate(group)),
                tuple([of_query[nth] for nth in group] for of_query in more),
                tuple(self._windows[queries[nth].scan] for nth in group),
                self._worst,
            )
            for group in groups
        ]
        answers: dict[int, list[Any]] = {}
        for number, answer in outcomes(self._executor, answer_scans, tasks):
            if isinstance(answer, LostWorkerError):
                raise TraceAnalyzerError(answer.what, None, answer.hint)
            answers[number] = answer
        for number in range(len(tasks)):
            yield from answers.pop(number)
