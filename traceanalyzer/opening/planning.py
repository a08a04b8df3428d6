"""What opening a run would do, where, and about what it costs: `--plan`."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.attribution.vocabulary.options import AttributionOptions
from traceanalyzer.opening.contents import Contents, traces_of
from traceanalyzer.opening.deriving import derived_place
from traceanalyzer.opening.finding import FoundRun, find
from traceanalyzer.opening.ingesting import held_sources
from traceanalyzer.opening.requests_planned import Requests, of_objects, of_shared_store

if TYPE_CHECKING:
    from traceanalyzer.cluster.address import ClusterAddress
    from traceanalyzer.remote.location import Location
    from traceanalyzer.remote.remote_object import RemoteObject

# CPU seconds of a task and of each GB of JSON, measured on traces of 1 MB to 1 GB; dense GPU work takes longer.
_READING_S, _READING_S_PER_GB = 0.3, 9.7
_ATTRIBUTING_S, _ATTRIBUTING_S_PER_GB = 0.2, 4.9
_PACKED = (".gz", ".zst", ".xz", ".bz2")
_PACKED_RATIO = 10
_GB = 1e9
_AT_ONCE = 16


def plan_of(
    path: Path | Location | Sequence[Path | Location],
    store: Path | Location | None,
    options: AttributionOptions,
    cluster: ClusterAddress | None,
    attribution: bool,
    trust: bool,
) -> list[str]:
    """Return what opening a run would do, in lines; nothing is read but the beginnings of files."""
    with ExitStack() as kept:
        run = find(path, store, options, kept, trust=trust, names=attribution)
        sources = [source for source, _ in run.sources.sources]
        held = held_sources(sources, run.keeper)
        new = [source for source, folder in zip(sources, held, strict=True) if folder is None]
        to_attribute = _to_attribute(run, held) if attribution else 0
        read_s = sum(_READING_S + _READING_S_PER_GB * _json_gb(source) for source in new)
        attribute_s = _ATTRIBUTING_S * to_attribute
        if to_attribute:
            attribute_s += _ATTRIBUTING_S_PER_GB * sum(map(_json_gb, sources)) * to_attribute / len(sources)
        requests = _requests(run, held, to_attribute, attribution=attribution, on_workers=cluster is not None)
        then = "match collectives, bound the run, evaluate rules, report" if attribution else "nothing"
        return [
            f"{run.root}: {_files(sources)}; {len(sources) - len(new)} in the store already",
            f"read       {len(new):,} files, about {_core_time(read_s)}",
            f"attribute  {to_attribute:,} traces, about {_core_time(attribute_s)}",
            f"where      {cluster or 'threads of this process'}",
            f"then here  {then}",
            f"store      {run.location.shared or run.location.folder}",
            *_request_words(requests),
            *(f"left out   {error}" for error in run.sources.unreadable),
        ]


def _requests(
    run: FoundRun, held: Sequence[Path | None], to_attribute: int, *, attribution: bool, on_workers: bool
) -> Requests:
    """Return what opening a run asks of an object store, where the run or its store lies in one."""
    new, found = held.count(None), Requests()
    if not isinstance(run.root, Path):
        found += of_objects(len(held), new)
    if run.keeper.shared is not None:
        to_fetch = sum(folder is not None and not run.keeper.is_here(folder) for folder in held)
        here = len(held) - new - to_fetch
        found += of_shared_store(new, to_fetch, here, to_attribute, attribution=attribution, on_workers=on_workers)
    return found


def _request_words(found: Requests) -> list[str]:
    words = f"requests   about {found.reads:,} that read (GET, listings), {found.writes:,} that write (PUT)"
    return [words] if found.reads else []


def _to_attribute(run: FoundRun, held: Sequence[Path | None]) -> int:
    """Return how many traces are not attributed: all, unless the store holds everything."""
    found = _traces(run, held)
    if found is None:
        return len(held)
    traces = found.traces
    target = derived_place(run.keeper, traces, run.options, found.captures)
    if run.keeper.has(target):
        return 0
    ranks = run.keeper.folder / "ranks" / target.name
    return sum(not run.keeper.has(ranks / str(number)) for number in range(len(traces)))


def _traces(run: FoundRun, held: Sequence[Path | None]) -> Contents | None:
    """Return the traces of a run and its captures, without fetching their tables; None where the store lacks one."""
    folders = [folder for folder in held if folder is not None]
    if len(folders) < len(held):
        return None
    with ThreadPoolExecutor(_AT_ONCE) as pool:
        cards = [card for card in pool.map(run.keeper.card_folder, folders) if card is not None]
    if len(cards) < len(held):
        return None
    pairs = [(source, card) for (source, _), card in zip(run.sources.sources, cards, strict=True)]
    return traces_of(run.keeper, run.sources, pairs).below(run.keeper.folder)


def _files(sources: Sequence[Path | RemoteObject]) -> str:
    size_bytes = sum(source.stat().st_size for source in sources)
    return f"{len(sources):,} file{'' if len(sources) == 1 else 's'} of {size_bytes / _GB:,.3g} GB"


def _json_gb(source: Path | RemoteObject) -> float:
    ratio = _PACKED_RATIO if source.name.endswith(_PACKED) else 1
    return source.stat().st_size * ratio / _GB


def _core_time(seconds: float) -> str:
    return f"{seconds:,.0f} core-seconds" if seconds < 3_600 else f"{seconds / 3_600:,.1f} core-hours"
