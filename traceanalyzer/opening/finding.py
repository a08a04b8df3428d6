"""What a run is made of, ahead of reading any of it: its sources, its store, its settings.

The objects of a run that lies in an object store or on a web server, as sources with their ingesters.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.attribution.options import AttributionOptions
from traceanalyzer.discovery import RunSources, find_run, with_ncu_tables
from traceanalyzer.discovery.remote_finding import STANDARD_INPUT, spooled
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.opening import RunRequest
from traceanalyzer.remote.location import Location, run_input
from traceanalyzer.settings.settings import NO_SETTINGS_FILE, SettingsFile, locate_settings
from traceanalyzer.store.locating import StoreLocation, locate_store
from traceanalyzer.store.store import Store

if TYPE_CHECKING:
    from traceanalyzer.discovery.remote_finding import RemoteRun
    from traceanalyzer.remote.remote_object import RemoteObject


def list_objects(remote: Sequence[Location], local: Sequence[Path]) -> RemoteRun:
    """Return the objects that a run's URLs name; raises TraceAnalyzerError where files are named, too."""
    from traceanalyzer.discovery.remote_finding import list_run

    if local:
        hint = "download the objects, or give one kind only"
        raise TraceAnalyzerError("files and objects of a store cannot be one run", str(local[0]), hint)
    return list_run(remote)


def recognise_objects(listed: RemoteRun, opened_store: Store) -> RunSources:
    """Return the sources of a run, recognised by the first bytes of each object that the store does not know."""
    from traceanalyzer.discovery.remote_finding import recognise

    return recognise(listed, opened_store)


@dataclass(frozen=True)
class FoundRun:
    """A run that nothing was read of but the beginnings of its files."""

    request: RunRequest
    root: Path | Location
    sources: RunSources
    location: StoreLocation
    opened_store: Store
    settings_file: SettingsFile
    options: AttributionOptions

    def with_names(self) -> FoundRun:
        """Return it with the names in the project's settings among its options, unless these have some."""
        return replace(self, options=_with_names(self.options, self.settings_file))


def find(request: RunRequest, kept: ExitStack) -> FoundRun:
    """Return what a user names as a run; what standard input leaves is removed with `kept`.

    Only what is to be attributed needs the names in the project's settings.
    """
    inputs = [item if isinstance(item, Location) else run_input(item) for item in request.inputs]
    store = request.store
    piped = kept.enter_context(spooled()) if Path(STANDARD_INPUT) in inputs else None
    remote = [item for item in inputs if not isinstance(item, Path)]
    local = [item for item in inputs if isinstance(item, Path)]
    if remote:
        remote_run = list_objects(remote, local)
        root: Path | Location = remote_run.root
    else:
        found = find_run([item if piped is None or item != Path(STANDARD_INPUT) else piped for item in local])
        root = found.root
    if piped is not None and root == piped:
        root, store = Path(piped.name), store or piped.with_name("store")
    settings_file = locate_settings(root, trust=request.trust) if request.with_settings else NO_SETTINGS_FILE
    options = _with_names(request.options, settings_file) if request.attribution else request.options
    location = locate_store(root, run_input(store) if isinstance(store, str | Path) else store)
    check_name(location.folder)
    opened_store = location.open()
    if remote:
        found = recognise_objects(remote_run, opened_store)
    sources = with_ncu_tables(found, [Path(item) for item in request.ncu])
    return FoundRun(request, root, sources, location, opened_store, settings_file, options)


def _with_names(options: AttributionOptions, settings_file: SettingsFile) -> AttributionOptions:
    return options if options.names is not None else replace(options, names=settings_file.read().names)


def check_name(path: Path | RemoteObject) -> None:
    """Raise TraceAnalyzerError for a name that is no text here: DuckDB and Arrow take UTF-8 only."""
    try:
        str(path).encode()
    except UnicodeEncodeError as error:
        hint = "rename it, or set PYTHONUTF8=1 where the locale is not UTF-8"
        raise TraceAnalyzerError("the name is not UTF-8", str(path), hint) from error
