"""Finds the traces of a run that no folder holds: in a store, by a listing and beginnings of objects, or piped in."""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, replace
from fnmatch import fnmatchcase
from glob import has_magic
from pathlib import Path, PurePosixPath

from traceanalyzer.discovery import RunSources, discover, natural_key
from traceanalyzer.discovery.finding import left_behind, look
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import EXPECTED
from traceanalyzer.ingest.formats import ingesters
from traceanalyzer.ingest.nsys import is_report
from traceanalyzer.ingest.packed import LIMITS, ArchiveIngester
from traceanalyzer.remote.location import Client, Entry, Location
from traceanalyzer.remote.remote_object import RemoteObject, client_of, first_bytes
from traceanalyzer.store.inputs import TRACE_SOURCES, engine_key
from traceanalyzer.store.owner import user_cache
from traceanalyzer.store.store import Store

_FILE_NAME = "stdin"
_COPY_BYTES = 2**20
_WHERE, _HINT = "standard input", "pipe a trace into it, or name a file"


@contextmanager
def spooled() -> Iterator[Path]:
    """Give a file with what standard input holds, in a folder of its own that is removed at the end.

    Raises TraceAnalyzerError where there is nothing to read or nowhere to keep it.
    """
    if sys.stdin.isatty():
        raise TraceAnalyzerError("is a terminal", _WHERE, _HINT)
    with tempfile.TemporaryDirectory(prefix="stdin-", dir=user_cache()) as folder:
        file = Path(folder) / _FILE_NAME
        try:
            _copy(file)
        except OSError as error:
            hint = "make room there, or set XDG_CACHE_HOME to a folder on a larger disk"
            raise TraceAnalyzerError(f"standard input cannot be kept: {error.strerror}", folder, hint) from error
        if not file.stat().st_size:
            raise TraceAnalyzerError("is empty", _WHERE, _HINT)
        try:
            yield file
        except TraceAnalyzerError as error:
            if error.where == str(file):
                raise TraceAnalyzerError(error.what, _WHERE, error.hint) from error
            raise


def _copy(file: Path) -> None:
    size_bytes = 0
    with file.open("wb") as kept:
        while block := sys.stdin.buffer.read(_COPY_BYTES):
            size_bytes += kept.write(block)
            if size_bytes > LIMITS.total_bytes:
                hint = "write it to a file, and name the file"
                raise TraceAnalyzerError(f"is longer than {LIMITS.total_bytes:,} bytes", _WHERE, hint)


# Objects whose beginnings are read at once.
_READERS = 16
_HEAD_BYTES = 2**20
# So many failures, and this share of what was asked for: then the rest is not tried.
_MOST_FAILURES = 32
_MOST_FAILURES_SHARE = 0.05
_LOG_SUFFIX = "-wal"
_PARQUET_STRINGS = "StringIds.parquet"
_LONGEST_NAME_BYTES = 255
_NOT_FOUND = {
    True: "check the address; that of a folder ends with a slash, and its server has to show what is in it",
    False: "check the address: what lies deeper than one folder below it is not looked for",
}


@dataclass(frozen=True)
class RemoteRun:
    """What lies where the user said, by one listing."""

    root: Location
    objects: tuple[RemoteObject, ...]
    named: frozenset[str]  # the URLs of those that the user named: archives are opened there


def list_run(locations: Sequence[Location]) -> RemoteRun:
    """Return the objects of one or several places; those that several name count once.

    Raises TraceAnalyzerError where a place holds nothing or cannot be listed.
    """
    clients: dict[tuple[str, str], Client] = {}
    objects: dict[str, RemoteObject] = {}
    named: set[str] = set()
    for location in locations:
        server = (location.scheme, location.host)
        client = clients[server] = clients.get(server) or client_of(location)
        found = list(_listed(client, location))
        is_server = location.extra == "http"
        if not found:
            raise TraceAnalyzerError("no such object or folder, or an empty one", str(location), _NOT_FOUND[is_server])
        objects |= {item.url: item for item in found if item.url not in objects}
        named |= {item.url for item in found if item.url == str(location)}
    root = _root_of([_split_pattern(location)[0] for location in locations])
    if len(locations) > 1:
        objects = {url: replace(item, run_name=url.removeprefix(f"{root}/")) for url, item in objects.items()}
    return RemoteRun(root, tuple(objects.values()), frozenset(named))


def _root_of(locations: Sequence[Location]) -> Location:
    """Return the one place; of several the folder that all lie in, where they are of one bucket, else the first."""
    first = locations[0]
    if len(locations) == 1 or len({(location.scheme, location.host) for location in locations}) > 1:
        return first
    folders = [PurePosixPath(location.key).parent.parts for location in locations]
    common: list[str] = []
    for parts in zip(*folders, strict=False):
        if len(set(parts)) > 1:
            break
        common.append(parts[0])
    return replace(first, key="/".join(common), is_folder=False)


def _listed(client: Client, location: Location) -> Iterator[RemoteObject]:
    """Yield what lies in a folder or one level deeper and is not hidden, or the one object that was named."""
    folder, pattern = _split_pattern(location)
    root = client.key_of(folder)
    base = str(folder).rstrip("/")
    found: dict[str, Entry] = {}
    for entry in client.entries(folder):
        below = entry.key[len(root) :].lstrip("/")
        parts = PurePosixPath(below).parts
        matches = pattern is None or (fnmatchcase(below, pattern) and len(parts) == pattern.count("/") + 1)
        if (len(parts) <= 2 or pattern is not None) and not any(part.startswith(".") for part in parts) and matches:
            found[below] = entry
    # An empty object may stand for a folder.
    if "" in found and len(found) > 1:
        del found[""]
    for below, entry in found.items():
        log = found.get(below + _LOG_SUFFIX)
        url = f"{base}/{folder.in_url(below)}" if below else base
        beside = None if log is None else RemoteObject(log, url + _LOG_SUFFIX, below + _LOG_SUFFIX, client)
        yield RemoteObject(entry, url, below or location.name, client, beside)


def _split_pattern(location: Location) -> tuple[Location, str | None]:
    """Return the folder ahead of the first part of a key that is a pattern, and the pattern below it."""
    parts = location.key.split("/")
    magic = next((number for number, part in enumerate(parts) if has_magic(part)), None)
    if magic is None or location.extra == "http":
        return location, None
    return replace(location, key="/".join(parts[:magic]), is_folder=True), "/".join(parts[magic:])


def recognise(run: RemoteRun, opened_store: Store) -> RunSources:
    """Return the traces among a run's objects, each with its ingester.

    What an object is, is remembered in the store for as long as its version stays the same: then none is read. Raises
    TraceAnalyzerError where no object is a trace.
    """
    remembered = _remembered(opened_store)
    keys = {item.url: f"{item.digest} {item.url in run.named} {item.url}" for item in run.objects}
    new = [item for item in run.objects if keys[item.url] not in remembered]
    looked = dict(zip((item.url for item in new), _look_at(run, new), strict=True))
    known = {url: looked.get(url) or remembered[key] for url, key in keys.items()}
    _check_failures(looked)
    lasting = {key: known[url] for url, key in keys.items() if known[url].lasts}
    if lasting != remembered:
        facts = {key: [look.reader, *(look.problem or ())] for key, look in lasting.items()}
        opened_store.answers.keep(_question(), json.dumps(facts).encode())
    by_name = {ingester.name: ingester for ingester in (*ingesters(), ArchiveIngester(tuple(ingesters())))}
    ordered = sorted(run.objects, key=lambda item: natural_key(item.run_name))
    sources = tuple((item, by_name[reader]) for item in ordered if (reader := known[item.url].reader))
    problems = [(item.url, problem) for item in ordered if (problem := known[item.url].problem)]
    unreadable = tuple(TraceAnalyzerError(what, url, hint or None) for url, (what, hint) in problems)
    if not sources:
        raise unreadable[0] if unreadable else TraceAnalyzerError("no traces in this folder", str(run.root), EXPECTED)
    named = {item.run_name: item for item, _ in sources if item.url not in run.named}
    left = left_behind(named, (item.run_name for item, reader in sources if not reader.name.startswith("ncu")))
    kept = tuple((item, reader) for item, reader in sources if item.url in run.named or item.run_name not in left)
    aside = (TraceAnalyzerError(why.what, named[name].url, why.hint) for name, why in left.items())
    return RunSources(run.root, kept, unreadable, tuple(aside))


@dataclass(frozen=True)
class _Look:
    """What an object is: the name of what reads it, '' for nothing; and what is wrong with it and what to do."""

    reader: str
    problem: tuple[str, str] | None = None
    lasts: bool = True  # it is so as long as the object is the same


def _question() -> str:
    return f"what objects are {engine_key(TRACE_SOURCES)}"


def _remembered(opened_store: Store) -> dict[str, _Look]:
    facts = json.loads(opened_store.answers.get(_question()) or "{}")
    return {
        key: _Look(reader, (problem[0], problem[1]) if problem else None) for key, (reader, *problem) in facts.items()
    }


def _look_at(run: RemoteRun, objects: Sequence[RemoteObject]) -> list[_Look]:
    """Return what objects are, by their beginnings."""
    names = {item.run_name for item in run.objects}
    failed: list[_Look] = []

    def look_at(item: RemoteObject, folder: Path) -> _Look:
        if _are_too_many(len(failed), len(objects)):
            return failed[0]
        found = _looked(item, folder, names, is_named=item.url in run.named)
        failed.extend([found] * (not found.lasts))
        return found

    with tempfile.TemporaryDirectory(prefix="heads-") as folder, ThreadPoolExecutor(_READERS) as pool:
        return list(pool.map(look_at, objects, (Path(folder, str(number)) for number in range(len(objects)))))


def _are_too_many(failed: int, tried: int) -> bool:
    """Return whether so many reads failed that the store is to blame, and no object."""
    return failed >= _MOST_FAILURES and failed > tried * _MOST_FAILURES_SHARE


def _check_failures(looked: dict[str, _Look]) -> None:
    """Raise TraceAnalyzerError where so many objects cannot be read that asking for the rest is useless."""
    failed = [(url, look.problem) for url, look in looked.items() if not look.lasts and look.problem]
    if _are_too_many(len(failed), len(looked)):
        url, (what, hint) = failed[0]
        raise TraceAnalyzerError(f"{what}; reading was given up, as other objects fail alike", url, hint or None)


def _looked(item: RemoteObject, folder: Path, names: set[str], *, is_named: bool) -> _Look:
    """Return what an object is, as the file of its name is that begins as it does."""
    place = PurePosixPath(item.run_name)
    if place.name == _PARQUET_STRINGS:
        if f"{str(place.parent).removesuffix('_pqtdir')}.sqlite" in names:
            return _Look("")  # the SQLite export beside it holds the same
        return _Look("", ("is part of a Parquet export, which is read on a disk only", "download its folder"))
    if item.name.endswith(_LOG_SUFFIX):
        return _Look("")
    if len(item.name.encode()) > _LONGEST_NAME_BYTES or "\0" in item.name or item.name in ("", ".", ".."):
        return _Look("", ("has a name that no file can have", "rename it"))
    folder.mkdir()
    file = folder / item.name
    try:
        file.write_bytes(first_bytes(item, _HEAD_BYTES))
    except TraceAnalyzerError as error:
        return _Look("", (error.what, error.hint or ""), lasts=False)
    if is_report(file):
        _put_export_beside(file, place, names)
    try:
        reader, problem = (discover(file).sources[0][1], None) if is_named else look(file)
    except TraceAnalyzerError as error:
        reader, problem = None, error
    file.unlink()
    words = None if problem is None else (problem.what, problem.hint or "")
    return _Look("" if reader is None else reader.name, words)


def _put_export_beside(report: Path, place: PurePosixPath, names: set[str]) -> None:
    """Let a report's export lie beside it where one was listed: then that is read."""
    export = place.with_suffix(".sqlite")
    if str(export) in names:
        (report.parent / export.name).touch()
