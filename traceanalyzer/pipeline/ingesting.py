"""Has the sources of a run read that the store does not hold yet: each is a task, which any executor can run.

An object of a store becomes canonical tables: JSON as it comes over the line, other formats from a copy on the disk.
All processes that fill a run's store must have the same code, or its tables would differ.
"""

from __future__ import annotations

import os
import shutil
import socket
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import BrokenExecutor, Executor, Future, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester, IngestOptions, Progress
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.pipeline import ignore
from traceanalyzer.pipeline.finding import FoundRun, check_name, open_store
from traceanalyzer.process import keep_little_memory
from traceanalyzer.remote.location import Location
from traceanalyzer.remote.remote_object import RemoteObject, fetch
from traceanalyzer.store.inputs import engine_key
from traceanalyzer.store.owner import is_marked, user_key
from traceanalyzer.store.store import Store
from traceanalyzer.store.writing import StoreError
from traceanalyzer.version import __version__

_LIBRARIES = ("duckdb", "pyarrow", "numpy")


@dataclass(frozen=True)
class RunningCode:
    """What two processes must have alike so that they write the same tables."""

    traceanalyzer: str
    engine: str  # a hash of the package's files: versions under development differ without another number
    libraries: tuple[str, ...]

    @classmethod
    def here(cls) -> RunningCode:
        """Return what this process has."""
        return _here()

    def check_here(self, store: Path | Location) -> None:
        """Raise TraceAnalyzerError where this process has other code than the one that asks, or not its store."""
        self.compare(RunningCode.here(), socket.gethostname())
        if not isinstance(store, Path):  # each machine has its own working copy
            return
        try:
            is_ours = is_marked(store, user_key())
        except OSError:
            is_ours = False
        if not is_ours:
            what = (
                f"the worker on {socket.gethostname()} does not see this store, or sees it with the key of another user"
            )
            hint = "give --store a folder that all workers share, under the same path; they also share XDG_STATE_HOME"
            raise TraceAnalyzerError(what, store, hint)

    def compare(self, theirs: RunningCode, where: str) -> None:
        """Raise TraceAnalyzerError where a worker has other code; the error names both."""
        if theirs != self:
            hint = "install the same version on all workers, and start them again"
            raise TraceAnalyzerError(f"this worker has {theirs}, and the command that asks it {self}", where, hint)

    def __str__(self) -> str:
        return f"traceanalyzer {self.traceanalyzer} (engine {self.engine}) with {', '.join(self.libraries)}"


@cache
def _here() -> RunningCode:
    from importlib.metadata import version

    libraries = tuple(f"{name} {version(name)}" for name in _LIBRARIES)
    return RunningCode(__version__, engine_key(("*",)), libraries)


def ingest(ingester: Ingester, source: Path | RemoteObject, folder: Path, options: IngestOptions) -> None:
    """Write every trace of a source into a subfolder of `folder`; see Ingester.

    Of an object, what needs its file more than once is copied to the disk of the store, and removed at the end.
    """
    if isinstance(source, Path):
        ingester.ingest(source, folder, options)
        return
    if isinstance(ingester, TraceEventIngester):
        ingester.ingest(source, folder, options)
        return
    from traceanalyzer.ingest.packed.archives import safe_name

    needed = source.entry.size_bytes + (0 if source.log is None else source.log.entry.size_bytes)
    free = shutil.disk_usage(folder).free
    if needed > free:
        hint = "make room there, or give --store DIR on a disk with more"
        what = f"is copied before it is read, and has {needed:,} bytes where {free:,} are free"
        raise TraceAnalyzerError(what, source.url, hint)
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as scratch:
        file = Path(scratch) / safe_name(source.name)
        fetch(source, file)
        if source.log is not None:
            fetch(source.log, file.with_name(f"{file.name}-wal"))
        report = options.report
        own = replace(options, report=lambda progress: report(replace(progress, path=source)))
        try:
            ingester.ingest(file, folder, own)
        except TraceAnalyzerError as error:
            if error.where == str(file):
                raise TraceAnalyzerError(error.what, source.url, error.hint) from error
            raise


# So many files that fail for one reason, and this share of all: then the reason is no file, and the rest is not tried.
_MOST_FAILURES = 8
_MOST_FAILURES_SHARE = 0.05
_Task = TypeVar("_Task")
_T = TypeVar("_T")


class LostWorkerError(TraceAnalyzerError):
    """The workers that ran a task ended before it did, each time."""


@dataclass(frozen=True)
class IngestTask:
    """One file of a run to be read into a store: plain data, which means the same on every machine that sees both."""

    source: Path | RemoteObject
    ingester: Ingester
    store: Path | Location
    jobs: int = 1
    code: RunningCode | None = None  # what has to do it, where that is another process


@dataclass(frozen=True)
class Ingested:
    """A source with the folder of its traces, and whether the store had it."""

    source: Path | RemoteObject
    folder: Path
    was_there: bool


def ingest_source(
    task: IngestTask, report: Callable[[Progress], None] = ignore
) -> tuple[str, bool] | TraceAnalyzerError:
    """Read one source into the store, unless it is there; return the name of its folder and whether it was there.

    An error of the source is returned, as the others go on; one of the store, or of the worker, is raised.
    """
    source = task.source
    if task.code is not None:
        task.code.check_here(task.store)
        if isinstance(source, Path) and not source.exists():
            hint = "put the run where all workers see it, under the same path"
            raise TraceAnalyzerError("the worker does not see this file", source, hint)
    try:
        check_name(source)
        options = IngestOptions(task.jobs, report)
        folder, was_there = open_store(task.store).trace_folder(
            source, lambda scratch: ingest(task.ingester, source, scratch, options)
        )
    except StoreError:
        raise
    except TraceAnalyzerError as error:
        return TraceAnalyzerError(error.what, error.where or str(source), error.hint)
    return folder.name, was_there


def ingest_all(found: FoundRun, unreadable: list[TraceAnalyzerError]) -> list[Ingested]:
    """Return each source of a run with its folder of traces, read where the store lacks it; all cores are used.

    Sources that cannot be read are listed in `unreadable`, and so are those that the store lacks where all is to come
    from there; if none can be read, the first error is raised.
    """
    request, sources = found.request, found.sources.sources
    keep_little_memory(sum(file.stat().st_size for file, _ in sources if isinstance(file, Path) and file.exists()))
    if request.from_store:
        answers = _from_store(sources, found.opened_store, request.report)
    else:
        answers = ingest_each(sources, found.opened_store, request.cores, request.report, request.executor)
    errors = [answer for answer in answers if isinstance(answer, TraceAnalyzerError)]
    if len(errors) == len(answers):
        raise errors[0]
    unreadable += errors
    return [answer for answer in answers if isinstance(answer, Ingested)]


def ingest_each(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    opened_store: Store,
    jobs: int,
    report: Callable[[Progress], None],
    executor: Executor | None = None,
) -> list[Ingested | TraceAnalyzerError]:
    """Return for each source its folder of traces, or why it cannot be read.

    An `executor` runs the tasks, by default threads of this process.
    """
    if executor is None:
        return _in_threads(sources, opened_store, jobs, report)
    return _in_processes(sources, opened_store, executor, report)


def _from_store(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]], opened_store: Store, report: Callable[[Progress], None]
) -> list[Ingested | TraceAnalyzerError]:
    """Return for each source the folder of its traces, or that the store does not hold them; no source is read."""
    held = held_sources([source for source, _ in sources], opened_store)
    there = iter(fetch_held(sources, held, opened_store, report))
    hint = "its part was not done, or the file changed since: run the part again, or leave out --from-store"
    return [
        TraceAnalyzerError("is not in the store", str(source), hint) if folder is None else next(there)
        for (source, _), folder in zip(sources, held, strict=True)
    ]


def _in_threads(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    opened_store: Store,
    jobs: int,
    report: Callable[[Progress], None],
) -> list[Ingested | TraceAnalyzerError]:
    each = max(1, jobs // len(sources))
    with ThreadPoolExecutor(min(jobs, len(sources))) as pool, ExitStack() as kept:
        ingesters = [ingester for _, ingester in sources]
        if len(sources) > 1:
            from traceanalyzer.pipeline.reading_together import read_together

            ingesters = read_together(sources, opened_store, pool, jobs, report, kept)
        tasks = [
            IngestTask(source, ingester, opened_store.place, each)
            for (source, _), ingester in zip(sources, ingesters, strict=True)
        ]
        answers = pool.map(partial(ingest_source, report=report), tasks)
        return [_answer(source, answer, opened_store) for (source, _), answer in zip(sources, answers, strict=True)]


def _in_processes(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    opened_store: Store,
    executor: Executor,
    report: Callable[[Progress], None],
) -> list[Ingested | TraceAnalyzerError]:
    """Have what the store lacks read by other processes, which write into the same store."""

    held = held_sources([source for source, _ in sources], opened_store)
    store, code = opened_store.place, RunningCode.here()
    new = [
        (source, IngestTask(source.absolute() if isinstance(source, Path) else source, ingester, store, code=code))
        for (source, ingester), folder in zip(sources, held, strict=True)
        if folder is None
    ]
    for source, _ in new:
        report(Progress(source, 0, source.stat().st_size, 0))
    read: dict[str, Ingested | TraceAnalyzerError] = {}
    failed: dict[str, int] = {}
    for number, answer in outcomes(executor, ingest_source, [task for _, task in new]):
        source, task = new[number]
        if isinstance(answer, tuple):
            opened_store.written_elsewhere(answer[0])
        elif answer.where in (None, str(task.source)):
            answer = TraceAnalyzerError(answer.what, str(source), answer.hint)
        read[str(source)] = _answer(source, answer, opened_store)
        report(Progress(source, source.stat().st_size, source.stat().st_size, 0))
        if isinstance(answer, TraceAnalyzerError):
            failed[answer.what] = failed.get(answer.what, 0) + 1
            if failed[answer.what] >= max(_MOST_FAILURES, _MOST_FAILURES_SHARE * len(new)):
                what = f"{answer.what}; {failed[answer.what]} of {len(read)} files fail alike, and the rest is left"
                raise TraceAnalyzerError(what, answer.where, answer.hint)
    there = iter(fetch_held(sources, held, opened_store, report))
    return [
        read[str(source)] if folder is None else next(there) for (source, _), folder in zip(sources, held, strict=True)
    ]


def fetch_held(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    held: Sequence[Path | None],
    opened_store: Store,
    report: Callable[[Progress], None],
) -> list[Ingested | TraceAnalyzerError]:
    """Return those sources that the store holds, here: fetched where others published them.

    One that is damaged where it was published is read again.
    """
    pairs = [(item, folder) for item, folder in zip(sources, held, strict=True) if folder is not None]
    elsewhere = [item for item, folder in pairs if not opened_store.is_here(folder)]
    answers = _in_threads(elsewhere, opened_store, os.cpu_count() or 1, report) if elsewhere else []
    fetched = {str(source): answer for (source, _), answer in zip(elsewhere, answers, strict=True)}
    return [fetched.get(str(source)) or Ingested(source, folder, True) for (source, _), folder in pairs]


def held_sources(sources: Sequence[Path | RemoteObject], opened_store: Store) -> list[Path | None]:
    """Return the folder of traces of each source that the store holds; a file system on a network is asked at once."""
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        return list(pool.map(opened_store.held_traces, sources))


def outcomes(
    executor: Executor, work: Callable[[_Task], _T], tasks: Sequence[_Task]
) -> Iterator[tuple[int, _T | LostWorkerError]]:
    """Yield the number of each task with its result; of one that ended its workers, the error.

    A worker that ends takes along the tasks that wait there for their turn, and those count as lost, too. So whatever
    was lost is tried again once all else is done, alone: what then ends its workers does so by itself.
    """
    futures: list[Future[_T]] = [executor.submit(work, task) for task in tasks]
    lost: list[int] = []
    try:
        for number, future in enumerate(futures):
            if isinstance(result := _outcome(future), LostWorkerError):
                lost.append(number)
            else:
                yield number, result
        for number in lost:
            futures.append(executor.submit(work, tasks[number]))
            again = _outcome(futures[-1])
            yield number, again
    finally:
        for future in futures:
            future.cancel()


def _outcome(future: Future[_T]) -> _T | LostWorkerError:
    try:
        return future.result()
    except LostWorkerError as error:
        return error
    except BrokenExecutor as error:
        hint = "most often for lack of memory; use fewer workers. What is done is kept: run the command again"
        raise TraceAnalyzerError("a worker process ended abruptly", hint=hint) from error


def _answer(
    source: Path | RemoteObject, answer: tuple[str, bool] | TraceAnalyzerError, opened_store: Store
) -> Ingested | TraceAnalyzerError:
    if isinstance(answer, TraceAnalyzerError):
        return answer
    name, was_there = answer
    return Ingested(source, opened_store.folder / "traces" / name, was_there)
