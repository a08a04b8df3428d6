"""Finds the traces of a run by their content, in what a user names: files, folders, archives, patterns."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from glob import glob, has_magic
from os.path import commonpath, relpath
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.discovery.finding import discover as discover
from traceanalyzer.discovery.naming import is_ncu_report
from traceanalyzer.discovery.naming import natural_key as natural_key
from traceanalyzer.discovery.naming import ranks_from_names as ranks_from_names
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester
from traceanalyzer.ingest.amd import OneTableIngester
from traceanalyzer.ingest.trace_events.stream import read_head as read_head
from traceanalyzer.ingest.unread_formats import EXPORT_COUNTERS, READ_COUNTERS

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location
    from traceanalyzer.remote.remote_object import RemoteObject


@dataclass(frozen=True)
class RunSources:
    """The trace files of a run, each with its ingester."""

    # What the run is called after, and where its store lies: the one input, or the folder of several.
    root: Path | Location
    sources: tuple[tuple[Path | RemoteObject, Ingester], ...]
    unreadable: tuple[TraceAnalyzerError, ...]  # files that are named like traces and cannot be read as one
    set_aside: tuple[TraceAnalyzerError, ...] = ()  # files that are none of the run, and why

    def name(self, source: Path | RemoteObject) -> str:
        """Return what a trace file is called in the run: its path below the run's folder."""
        if not (isinstance(source, Path) and isinstance(self.root, Path)):
            return source.name if isinstance(source, Path) else source.run_name
        return Path(relpath(source, self.root.parent if self._is_of_one_file else self.root)).as_posix()

    @cached_property
    def _is_of_one_file(self) -> bool:
        return not (isinstance(self.root, Path) and self.root.is_dir()) or self.root in {
            item for item, _ in self.sources
        }


def find_run(inputs: Sequence[Path]) -> RunSources:
    """Return what one or several inputs hold: trace files, folders and archives of them, patterns (`run/*.json`).

    A file that several inputs name counts once. Raises TraceAnalyzerError where an input holds no trace.
    """
    paths = [path for given in inputs for path in _expanded(given)]
    sources: dict[str, tuple[Path, Ingester]] = {}
    unreadable: dict[str, TraceAnalyzerError] = {}
    set_aside: dict[str, TraceAnalyzerError] = {}
    for path in paths:
        found = discover(path)
        for source, ingester in found.sources:
            sources.setdefault(str(source.resolve()), (source, ingester))
        unreadable |= {str(error): error for error in found.unreadable}
        set_aside |= {str(error): error for error in found.set_aside}
    read = {source.resolve() for source, _ in sources.values()}
    kept = [(source, ingester) for source, ingester in sources.values() if not _is_read_with(source, ingester, read)]
    return RunSources(_root_of(paths), tuple(kept), tuple(unreadable.values()), tuple(set_aside.values()))


def _is_read_with(source: Path, ingester: Ingester, read: set[Path]) -> bool:
    """Return whether another source of the run stands for this table, too."""
    leader = None
    if isinstance(ingester, OneTableIngester):
        from traceanalyzer.ingest.amd.csv_processes import leader_of

        leader = leader_of(source)
    return leader is not None and leader != source and leader.resolve() in read


def with_ncu_tables(found: RunSources, files: Sequence[Path]) -> RunSources:
    """Return a run with tables of Nsight Compute that do not lie beside its traces (`--ncu`).

    Raises TraceAnalyzerError where a file is none.
    """
    if not files:
        return found
    from traceanalyzer.ingest.ncu import NcuIngester, NcuReportIngester

    there = {source.resolve() for source, _ in found.sources if isinstance(source, Path)}
    added = []
    write_one = f"write one: {EXPORT_COUNTERS.format('REPORT.ncu-rep')}"
    for file in (file for given in files for file in _expanded(given)):
        if not file.exists():
            raise TraceAnalyzerError("no such file", file, write_one)
        head = read_head(file) if file.is_file() else b""
        ingester = next((one for one in (NcuIngester(), NcuReportIngester()) if one.sniff(head, file)), None)
        if ingester is None:
            is_report = is_ncu_report(file)
            what = "is a report of Nsight Compute, not a table" if is_report else "is no table of Nsight Compute"
            hint = READ_COUNTERS.format(file.name) if is_report else write_one
            raise TraceAnalyzerError(what, file, hint)
        if file.resolve() not in there:
            there.add(file.resolve())
            added.append((file, ingester))
    return replace(found, sources=(*found.sources, *added))


def _expanded(given: Path) -> list[Path]:
    """Return the files that a pattern matches, in natural order of their names; a name that exists is no pattern."""
    if given.exists() or not has_magic(str(given)):
        return [given]
    matches = sorted(glob(str(given), recursive=True), key=natural_key)  # noqa: PTH207  a pattern may be absolute
    if not matches:
        raise TraceAnalyzerError("no file matches", given, "give trace files, or the folder that holds a run")
    return [Path(match) for match in matches]


def _root_of(paths: Sequence[Path]) -> Path:
    """Return the one input; of several the folder that all lie in, unless it is far above: then that of the first."""
    if len(paths) == 1:
        return paths[0]
    common = Path(commonpath([path.absolute().parent for path in paths]))
    near = all(common in path.absolute().parents[:2] for path in paths)
    return Path(relpath(common)) if near else paths[0].parent
