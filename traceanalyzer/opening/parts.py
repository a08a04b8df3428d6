"""A share of the work of opening a run, for jobs that run side by side without a scheduler of tasks.

A part reads its own files. Once the store holds all files of the run, it attributes its own traces: so the parts are
run twice, and `open_run` does what is left. A part that is run again goes on where it ended.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.opening.contents import Contents, traces_of
from traceanalyzer.opening.deriving import derived_place
from traceanalyzer.opening.finding import FoundRun, find
from traceanalyzer.opening.ingesting import Ingested, fetch_held, held_sources, ingest_each
from traceanalyzer.opening.request import RunRequest, ignore
from traceanalyzer.store.inputs import stamp_of


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


def _traces(run: FoundRun, held: Sequence[Path | None]) -> Contents:
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
    traces, _, captures = _traces(run, held)
    target = derived_place(run.opened_store, traces, run.options, captures)
    if run.opened_store.has(target):
        return [True for _ in traces[share.index :: share.of]]
    from traceanalyzer.attribution import Matched, match
    from traceanalyzer.attribution.steps.steps import check_pattern
    from traceanalyzer.opening.attributing import AttributionTask, attribute_source, keep_matched
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
