"""What a run is made of, ahead of reading any of it: its sources, its settings, and where its store lies.

The objects of a run that lies in an object store or on a web server are sources like files, with their ingesters.
"""

from __future__ import annotations

from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path

from traceanalyzer.attribution import AttributionOptions
from traceanalyzer.discovery import RunSources, find_run, with_ncu_tables
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.pipeline import RunRequest
from traceanalyzer.remote.location import Location, run_input
from traceanalyzer.remote.remote_object import RemoteObject
from traceanalyzer.settings.settings import NO_SETTINGS_FILE, SettingsFile, locate_settings
from traceanalyzer.store.owner import UNWRITABLE, claim_store, is_marked, user_cache, user_key
from traceanalyzer.store.store import Store
from traceanalyzer.store.writing import keyed_hash

_STANDARD_INPUT = Path("-")


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
    piped = None
    if _STANDARD_INPUT in inputs:
        from traceanalyzer.discovery.remote_finding import spooled

        piped = kept.enter_context(spooled())
    remote = [item for item in inputs if not isinstance(item, Path)]
    local = [item for item in inputs if isinstance(item, Path)]
    if remote:
        if local:
            hint = "download the objects, or give one kind only"
            raise TraceAnalyzerError("files and objects of a store cannot be one run", str(local[0]), hint)
        from traceanalyzer.discovery.remote_finding import list_run, recognise

        remote_run = list_run(remote)
        root: Path | Location = remote_run.root
    else:
        found = find_run([item if piped is None or item != _STANDARD_INPUT else piped for item in local])
        root = found.root
    if piped is not None and root == piped:
        root, store = Path(piped.name), store or piped.with_name("store")
    settings_file = locate_settings(root, trust=request.trust) if request.with_settings else NO_SETTINGS_FILE
    options = _with_names(request.options, settings_file) if request.attribution else request.options
    location = locate_store(root, run_input(store) if isinstance(store, str | Path) else store)
    check_name(location.folder)
    opened_store = location.open()
    if remote:
        found = recognise(remote_run, opened_store)
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


STORE_NAME = ".traceanalyzer"


@dataclass(frozen=True)
class StoreLocation:
    """Where a run's store lies, and the store in the run's own folder that is not trusted, if there is one."""

    folder: Path
    ignored: Path | None = None
    shared: Location | None = None  # what the folder is a working copy of

    def open(self) -> Store:
        return Store(self.folder) if self.shared is None else _open_shared(self.folder, self.shared)


def locate_store(root: Path | Location, override: Path | Location | None) -> StoreLocation:
    """Return where a run's store lies: in the given place, in the run's own folder, or in the user's cache.

    That of a run in an object store lies in the cache, and so does the working copy of a store in a bucket.
    """
    key = user_key()
    if isinstance(override, Location):
        return StoreLocation(_working_copy(override), shared=override)
    if override is not None:
        # The user named this folder, so it may be a link; nothing below it may.
        folder = override.resolve() if override.is_symlink() else override
        if problem := claim_store(folder, key):
            raise TraceAnalyzerError(f"the store {problem}", override, "give --store a new folder that you can write")
        return StoreLocation(folder)
    home, ignored = root, None
    if isinstance(root, Path):
        home = root if root.is_dir() else root.parent
        own = home / STORE_NAME
        problem = claim_store(own, key)
        if problem is None:
            return StoreLocation(own)
        ignored = None if problem == UNWRITABLE else own
    cached = cached_store(root)
    if cached is None:
        neither = "neither the run's folder nor the user's cache" if isinstance(root, Path) else "no cache of the user"
        raise TraceAnalyzerError(f"{neither} can be written", str(home), "give --store DIR")
    if problem := claim_store(cached, key):
        raise TraceAnalyzerError(f"the store {problem}", cached, "remove it, or give --store DIR")
    return StoreLocation(cached, ignored)


def is_own_store(folder: Path) -> bool:
    """Return whether a folder is a store that this user made there."""
    return folder.is_dir() and is_marked(folder, user_key())


def open_store(place: Path | Location) -> Store:
    """Return the store that a task is given the place of: its folder, or the bucket that all tasks share."""
    return Store(place) if isinstance(place, Path) else _open_shared(_working_copy(place), place)


def _open_shared(folder: Path, place: Location) -> Store:
    from traceanalyzer.store.shared_store import SharedStore
    from traceanalyzer.store.working_copy import WorkingCopy

    return WorkingCopy(folder, SharedStore(place))


def _working_copy(place: Location) -> Path:
    """Return the folder of this machine that holds what was fetched from a bucket, or is to be published there."""
    folder = cached_store(place)
    if folder is None:
        hint = "set XDG_CACHE_HOME to a folder that you can write"
        raise TraceAnalyzerError("no cache of the user can be written for its tables", str(place), hint)
    folder = folder.with_name(f"{folder.name}-shared")
    if problem := claim_store(folder, user_key()):
        raise TraceAnalyzerError(f"the store {problem}", folder, "remove it")
    return folder


def cached_store(root: Path | Location) -> Path | None:
    """Return the folder of a run's store in the user's cache; None where the cache cannot be written."""
    home = str(root).rstrip("/")
    if isinstance(root, Path):
        home = str((root if root.is_dir() else root.parent).resolve())
    cache_folder = user_cache()
    if cache_folder is None:
        return None
    # The folder's number is in the name: a cache that was copied elsewhere holds stores whose marks do not fit.
    place = f"{cache_folder.stat().st_ino} {home}".encode(errors="surrogateescape")
    return cache_folder / keyed_hash(place, user_key())
