"""Has the small traces of a run that the store lacks read many at a time, before each gets its folder there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester, IngestOptions, Progress
from traceanalyzer.ingest.trace_events import TraceEventIngester, ingest_together
from traceanalyzer.pipeline.finding import check_name
from traceanalyzer.remote.remote_object import RemoteObject
from traceanalyzer.store.inputs import stamp_of
from traceanalyzer.store.store import Store

# Small traces are read together, from so many on: planning queries takes as long as reading megabytes.
_SMALL_BYTES, _TOGETHER_BYTES = 4 * 2**20, 32 * 2**20
_LEAST_TOGETHER, _MOST_TOGETHER = 4, 64  # ids have room for the numbers of 256
_PACKED_RATIO = 10


@dataclass
class _ReadAlready:
    """Gives the tables of a file that was read together with others, unless it was written since."""

    ingester: Ingester
    tables: Path
    stamp: list[int]
    name: str = TraceEventIngester.name

    def sniff(self, head: bytes, path: Path) -> bool:
        return self.ingester.sniff(head, path)

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        if stamp_of(path) == self.stamp:
            self.tables.rename(folder / self.tables.name)
        else:
            self.ingester.ingest(path, folder, options)


def read_together(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    opened_store: Store,
    pool: Executor,
    jobs: int,
    report: Callable[[Progress], None],
    kept: ExitStack,
) -> list[Ingester]:
    """Return how each source is read, with small traces that the store lacks read already, many at a time."""
    ingesters = [ingester for _, ingester in sources]
    small = {
        number: source
        for number, (source, ingester) in enumerate(sources)
        if isinstance(source, Path) and isinstance(ingester, TraceEventIngester) and _is_small(source)
    }
    if len(small) < _LEAST_TOGETHER or opened_store.shared is not None:
        return ingesters
    new = [(number, source) for number, source in small.items() if opened_store.held_traces(source) is None]
    if len(new) < _LEAST_TOGETHER:
        return ingesters
    scratch = kept.enter_context(opened_store.scratch())
    groups = _grouped(new, min(_MOST_TOGETHER, -(-len(new) // jobs)))
    for found in pool.map(partial(_read_group, scratch=scratch, report=report), groups):
        for number, tables, stamp in found:
            ingesters[number] = _ReadAlready(ingesters[number], tables, stamp)
    return ingesters


def _read_group(
    files: Sequence[tuple[int, Path]], scratch: Path, report: Callable[[Progress], None]
) -> list[tuple[int, Path, list[int]]]:
    """Return the numbers of the files that could be read together, with their tables and what they looked like."""
    folders = [(path, scratch / str(number)) for number, path in files]
    try:
        stamps = [stamp_of(path) for path, _ in folders]
        for _, folder in folders:
            folder.mkdir()
        done = ingest_together(folders, scratch, IngestOptions(1, report))
    except OSError:  # read one by one, a file says why
        return []
    return [
        (number, folder / "0", stamp)
        for (number, _), (_, folder), stamp, is_done in zip(files, folders, stamps, done, strict=True)
        if is_done
    ]


def _grouped(files: Sequence[tuple[int, Path]], most: int) -> list[list[tuple[int, Path]]]:
    """Return the files in groups of at most so many and of a size that fits into memory."""
    groups: list[list[tuple[int, Path]]] = []
    size_bytes = 0
    for number, path in files:
        added_bytes = _unpacked_bytes(path)
        if not groups or len(groups[-1]) >= most or size_bytes + added_bytes > _TOGETHER_BYTES:
            groups.append([])
            size_bytes = 0
        groups[-1].append((number, path))
        size_bytes += added_bytes
    return groups


def _is_small(path: Path) -> bool:
    try:
        check_name(path)
        return _unpacked_bytes(path) <= _SMALL_BYTES
    except (OSError, TraceAnalyzerError):
        return False


def _unpacked_bytes(path: Path) -> int:
    return path.stat().st_size * (_PACKED_RATIO if path.suffix == ".gz" else 1)
