"""What opening a run would do, where, and about what it costs (`--plan`), and a share of that work.

Shares are for jobs that run side by side without a scheduler of tasks. A part reads its own files. Once the store holds
all files of the run, it attributes its own traces: so the parts are run twice, and `open_run` does what is left. A part
that is run again goes on where it ended.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import RunRequest, ignore
from traceanalyzer.pipeline.contents import Contents, traces_of
from traceanalyzer.pipeline.deriving import derived_place
from traceanalyzer.pipeline.finding import FoundRun, find
from traceanalyzer.pipeline.ingesting import Ingested, fetch_held, held_sources, ingest_each
from traceanalyzer.remote.remote_object import RemoteObject
from traceanalyzer.store.inputs import stamp_of

Kind = Literal["local", "scheduler", "file", "env", "slurm"]
FORMS = "local[:N], tcp://HOST:PORT, tls://HOST:PORT, file:SCHEDULER.json, env, slurm[:N]"
# Slurm jobs at once, where the user names no number; Dask asks for more while tasks wait, and gives them back.
_MOST_JOBS = 16
_STARTED = re.compile(r"(?P<kind>local|slurm)(?::(?P<count>[1-9]\d{0,4}))?")
_SCHEDULER = re.compile(r"(?:tcp|tls)://[\w.\-\[\]:]+:\d{1,5}")


@dataclass(frozen=True)
class ClusterAddress:
    """Where the tasks of a run are computed."""

    kind: Kind
    place: str = ""  # the scheduler's address, or the file that it wrote
    count: int | None = None  # worker processes or jobs

    def __str__(self) -> str:
        match self.kind:
            case "local":
                return f"{self.count or 'as many'} worker processes{'' if self.count else ' as cores'} of this machine"
            case "slurm":
                return f"up to {self.count} Slurm jobs, as dask-jobqueue's configuration describes them"
            case "env":
                return "the Dask scheduler that DASK_SCHEDULER_ADDRESS or Dask's configuration names"
        return f"the Dask scheduler at {self.place}"


def parse_cluster(text: str) -> ClusterAddress:
    """Return the cluster that a text means; raise TraceAnalyzerError where it is none."""
    if match := _STARTED.fullmatch(text):
        kind: Kind = "local" if match["kind"] == "local" else "slurm"
        count = int(match["count"]) if match["count"] else None
        return ClusterAddress(kind, count=count or (_MOST_JOBS if kind == "slurm" else None))
    if text == "env":
        return ClusterAddress("env")
    if _SCHEDULER.fullmatch(text):
        return ClusterAddress("scheduler", text)
    if text.startswith("file:") and len(text) > len("file:"):
        file = Path(text.removeprefix("file:"))
        if not file.is_file():
            raise TraceAnalyzerError(
                "no such file", file, "`dask scheduler --scheduler-file` writes it, on a disk that is shared"
            )
        return ClusterAddress("file", str(file))
    raise TraceAnalyzerError("names no cluster", "--cluster", f"give one of {FORMS}")


# CPU seconds of a task and of each GB of JSON, measured on traces of 1 MB to 1 GB; dense GPU work takes longer.
_READING_S, _READING_S_PER_GB = 0.3, 9.7
_ATTRIBUTING_S, _ATTRIBUTING_S_PER_GB = 0.2, 4.9
_PACKED = (".gz", ".zst", ".xz", ".bz2")
_PACKED_RATIO = 10
_GB = 1e9
_AT_ONCE = 16


def plan_of(request: RunRequest, cluster: ClusterAddress | None) -> list[str]:
    """Return what opening a run would do, in lines; nothing is read but the beginnings of files."""
    attribution = request.attribution
    with ExitStack() as kept:
        run = find(request, kept)
        sources = [source for source, _ in run.sources.sources]
        held = held_sources(sources, run.opened_store)
        new = [source for source, folder in zip(sources, held, strict=True) if folder is None]
        to_attribute = _to_attribute(run, held) if attribution else 0
        read_s = sum(_READING_S + _READING_S_PER_GB * _json_gb(source) for source in new)
        attribute_s = _ATTRIBUTING_S * to_attribute
        if to_attribute:
            attribute_s += _ATTRIBUTING_S_PER_GB * sum(map(_json_gb, sources)) * to_attribute / len(sources)
        then = "match collectives, bound the run, evaluate rules, report" if attribution else "nothing"
        return [
            f"{run.root}: {_files(sources)}; {len(sources) - len(new)} in the store already",
            f"read       {len(new):,} files, about {_core_time(read_s)}",
            f"attribute  {to_attribute:,} traces, about {_core_time(attribute_s)}",
            f"where      {cluster or 'threads of this process'}",
            f"then here  {then}",
            f"store      {run.location.shared or run.location.folder}",
            *(f"left out   {error}" for error in run.sources.unreadable),
        ]


def _to_attribute(run: FoundRun, held: Sequence[Path | None]) -> int:
    """Return how many traces are not attributed: all, unless the store holds everything."""
    found = _traces(run, held)
    if found is None:
        return len(held)
    traces = found.traces
    target = derived_place(run.opened_store, traces, run.options, found.captures)
    if run.opened_store.has(target):
        return 0
    ranks = run.opened_store.folder / "ranks" / target.name
    return sum(not run.opened_store.has(ranks / str(number)) for number in range(len(traces)))


def _traces(run: FoundRun, held: Sequence[Path | None]) -> Contents | None:
    """Return the traces of a run and its captures, without fetching their tables; None where the store lacks one."""
    folders = [folder for folder in held if folder is not None]
    if len(folders) < len(held):
        return None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cards = [card for card in pool.map(run.opened_store.card_folder, folders) if card is not None]
    if len(cards) < len(held):
        return None
    pairs = [(source, card) for (source, _), card in zip(run.sources.sources, cards, strict=True)]
    return traces_of(run.opened_store, run.sources, pairs).below(run.opened_store.folder)


def _files(sources: Sequence[Path | RemoteObject]) -> str:
    size_bytes = sum(source.stat().st_size for source in sources)
    return f"{len(sources):,} file{'' if len(sources) == 1 else 's'} of {size_bytes / _GB:,.3g} GB"


def _json_gb(source: Path | RemoteObject) -> float:
    ratio = _PACKED_RATIO if source.name.endswith(_PACKED) else 1
    return source.stat().st_size * ratio / _GB


def _core_time(seconds: float) -> str:
    return f"{seconds:,.0f} core-seconds" if seconds < 3_600 else f"{seconds / 3_600:,.1f} core-hours"


@dataclass(frozen=True)
class Share:
    """Every `of`-th file of a run, and every `of`-th of its traces, from the one with number `index` on."""

    index: int
    of: int


@dataclass(frozen=True)
class PartDone:
    """What a part did, and what the other parts have not."""

    read: int
    was_there: int
    unreadable: tuple[TraceAnalyzerError, ...]
    missing: int  # files of the run that the store lacks
    attributed: int = 0
    was_attributed: int = 0


def do_part(request: RunRequest, share: Share) -> PartDone:
    """Do a share of a run's work, and return what was done.

    Raises TraceAnalyzerError where none of its files can be read.
    """
    with ExitStack() as kept:
        run = find(request, kept)
        run.opened_store.claim_shared()
        own = run.sources.sources[share.index :: share.of]
        stamps = [stamp_of(source) for source, _ in own]
        answers = ingest_each(own, run.opened_store, request.cores, request.report) if own else []
        failed = [answer for answer in answers if isinstance(answer, TraceAnalyzerError)]
        for (source, _), stamp, answer in zip(own, stamps, answers, strict=True):
            if isinstance(answer, TraceAnalyzerError):
                run.opened_store.keep_failure(source, stamp)
        if failed and len(failed) == len(answers):
            raise failed[0]
        there = sum(isinstance(answer, Ingested) and answer.was_there for answer in answers)
        read = len(answers) - len(failed) - there
        sources = [source for source, _ in run.sources.sources]
        held = held_sources(sources, run.opened_store)
        missing = sum(
            folder is None and not run.opened_store.is_known_failure(source)
            for source, folder in zip(sources, held, strict=True)
        )
        if missing:
            return PartDone(read, there, tuple(failed), missing)
        attributed = _attribute(run, held, share)
        return PartDone(read, there, tuple(failed), missing, attributed.count(False), attributed.count(True))


def _fetched_traces(run: FoundRun, held: Sequence[Path | None]) -> Contents:
    """Return the traces of the folders that the store holds; from a shared one, their tables are not fetched for it."""
    pairs = [
        (source, folder) for (source, _), folder in zip(run.sources.sources, held, strict=True) if folder is not None
    ]
    with ThreadPoolExecutor(run.request.cores) as pool:
        cards = list(pool.map(run.opened_store.card_folder, (folder for _, folder in pairs)))
    if None in cards:
        _fetch(run, held)
    known = [(source, card or folder) for (source, folder), card in zip(pairs, cards, strict=True)]
    return traces_of(run.opened_store, run.sources, known).below(run.opened_store.folder)


def _fetch(run: FoundRun, held: Sequence[Path | None]) -> None:
    for answer in fetch_held(run.sources.sources, held, run.opened_store, ignore):
        if isinstance(answer, TraceAnalyzerError):
            raise answer


def _attribute(run: FoundRun, held: Sequence[Path | None], share: Share) -> list[bool]:
    """Attribute a share of a run's traces; return of each whether it was there."""
    traces, _, captures = _fetched_traces(run, held)
    target = derived_place(run.opened_store, traces, run.options, captures)
    if run.opened_store.has(target):
        return [True for _ in traces[share.index :: share.of]]
    from traceanalyzer.attribution.steps.steps import check_pattern
    from traceanalyzer.attribution.tables import Matched, match
    from traceanalyzer.pipeline.attributing import AttributionTask, attribute_source, keep_matched
    from traceanalyzer.query.canonical import connect_canonical

    def matching() -> Matched:
        _fetch(run, held)
        with connect_canonical(traces) as connection:
            check_pattern(connection, run.options.step_pattern)
            return match(connection)

    own = keep_matched(run.opened_store, target.name, traces, matching)[share.index :: share.of]
    tasks = [
        AttributionTask(traces[number], number, run.options, run.opened_store.place, target.name) for number in own
    ]
    with ThreadPoolExecutor(run.request.cores) as pool:
        return list(pool.map(attribute_source, tasks))
