"""What a run is made of, ahead of reading any of it: its sources, its store, its settings."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from traceanalyzer.attribution.vocabulary.options import AttributionOptions
from traceanalyzer.discovery import RunSources, find_run, with_ncu_tables
from traceanalyzer.discovery.standard_input import STANDARD_INPUT, spooled
from traceanalyzer.opening.deriving import with_names
from traceanalyzer.opening.ingesting import check_name
from traceanalyzer.opening.sources import list_objects, recognise_objects
from traceanalyzer.remote.location import Location, run_input
from traceanalyzer.settings.settings import NO_SETTINGS_FILE, SettingsFile, locate_settings
from traceanalyzer.store.locating import StoreLocation, locate_store
from traceanalyzer.store.store import Store


@dataclass(frozen=True)
class FoundRun:
    """A run that nothing was read of but the beginnings of its files."""

    root: Path | Location
    sources: RunSources
    location: StoreLocation
    keeper: Store
    settings_file: SettingsFile
    options: AttributionOptions


def find(
    path: str | Path | Location | Sequence[str | Path | Location],
    store: str | Path | Location | None,
    options: AttributionOptions,
    kept: ExitStack,
    *,
    trust: bool,
    ncu: str | Path | Sequence[str | Path] = (),
    names: bool = True,
    with_settings: bool = True,
) -> FoundRun:
    """Return what a user names as a run; what standard input leaves is removed with `kept`. See `open_run`.

    With `names`, the options get those of the project's settings unless they have some. Without `with_settings` there
    are no settings, whatever lies above the run.
    """
    given = [path] if isinstance(path, (str, Path, Location)) else path
    inputs = [item if isinstance(item, Location) else run_input(item) for item in given]
    piped = kept.enter_context(spooled()) if Path(STANDARD_INPUT) in inputs else None
    tables = [Path(ncu)] if isinstance(ncu, str | Path) else [Path(item) for item in ncu]
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
    settings_file = locate_settings(root, trust=trust) if with_settings else NO_SETTINGS_FILE
    if names:
        options = with_names(options, settings_file)
    location = locate_store(root, run_input(store) if isinstance(store, str | Path) else store)
    check_name(location.folder)
    keeper = location.open()
    if remote:
        found = recognise_objects(remote_run, keeper)
    return FoundRun(root, with_ncu_tables(found, tables), location, keeper, settings_file, options)
