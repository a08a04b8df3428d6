"""What opening a run would do, where, and about what it costs: `--plan`."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.attribution.vocabulary.options import AttributionOptions
from traceanalyzer.opening.contents import traces_of
from traceanalyzer.opening.deriving import derived_place
from traceanalyzer.opening.finding import FoundRun, find
from traceanalyzer.opening.ingesting import held_sources

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
    if not all(folder is not None and run.keeper.is_here(folder) for folder in held):
        return len(held)
    folders = [
        (source, folder) for (source, _), folder in zip(run.sources.sources, held, strict=True) if folder is not None
    ]
    traces = traces_of(run.keeper, run.sources, folders)
    target = derived_place(run.keeper, traces, run.options)
    if run.keeper.is_whole(target):
        return 0
    return sum(run.keeper.find_rank_folder(target.name, str(number)) is None for number in range(len(traces)))


def _files(sources: Sequence[Path | RemoteObject]) -> str:
    size_bytes = sum(source.stat().st_size for source in sources)
    return f"{len(sources):,} file{'' if len(sources) == 1 else 's'} of {size_bytes / _GB:,.3g} GB"


def _json_gb(source: Path | RemoteObject) -> float:
    ratio = _PACKED_RATIO if source.name.endswith(_PACKED) else 1
    return source.stat().st_size * ratio / _GB


def _core_time(seconds: float) -> str:
    return f"{seconds:,.0f} core-seconds" if seconds < 3_600 else f"{seconds / 3_600:,.1f} core-hours"
