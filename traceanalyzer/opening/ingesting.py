"""Has the sources of a run read that the store does not hold yet, on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester, IngestOptions, Progress
from traceanalyzer.store.store import Store, StoreWriteError

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject


def ingest_all(
    sources: Sequence[tuple[Path | RemoteObject, Ingester]],
    keeper: Store,
    jobs: int,
    report: Callable[[Progress], None],
    unreadable: list[TraceAnalyzerError],
) -> list[tuple[Path | RemoteObject, Path, bool]]:
    """Return each source with its folder of traces and whether the store had it; all cores are used.

    Sources that cannot be read are listed in `unreadable`; if none can, the first error is raised.
    """
    options = IngestOptions(max(1, jobs // len(sources)), report)

    def ingest(
        item: tuple[Path | RemoteObject, Ingester],
    ) -> tuple[Path | RemoteObject, Path, bool] | TraceAnalyzerError:
        source, ingester = item
        try:
            check_name(source)
            folder, was_there = keeper.trace_folder(source, lambda scratch: _ingest(ingester, source, scratch, options))
        except StoreWriteError:
            raise
        except TraceAnalyzerError as error:
            return TraceAnalyzerError(error.what, error.where or str(source), error.hint)
        return source, folder, was_there

    with ThreadPoolExecutor(min(jobs, len(sources))) as pool:
        answers = list(pool.map(ingest, sources))
    errors = [answer for answer in answers if isinstance(answer, TraceAnalyzerError)]
    if len(errors) == len(answers):
        raise errors[0]
    unreadable += errors
    return [answer for answer in answers if not isinstance(answer, TraceAnalyzerError)]


def check_name(path: Path | RemoteObject) -> None:
    """Raise TraceAnalyzerError for a name that is no text here: DuckDB and Arrow take UTF-8 only."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        hint = "rename it, or set PYTHONUTF8=1 where the locale is not UTF-8"
        raise TraceAnalyzerError("the name is not UTF-8", str(path), hint) from error


def _ingest(ingester: Ingester, source: Path | RemoteObject, scratch: Path, options: IngestOptions) -> None:
    if isinstance(source, Path):
        ingester.ingest(source, scratch, options)
        return
    from traceanalyzer.remote.ingesting import ingest_object

    ingest_object(ingester, source, scratch, options)
