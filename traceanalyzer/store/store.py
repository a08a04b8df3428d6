"""A run's store: Parquet folders named by content, written atomically, reused while input and engine stay the same.

    store/
      traceanalyzer-store.txt     the mark of the user who made it, in this place
      sources/<path hash>.json    what a file looked like when it was last read, and its content's hash
      traces/<name>-<key>/        one file's traces, each a folder of canonical tables
      derived/<key>/              attribution tables of one set of traces under one set of options
      ranks/<key>/<number>/       what other processes computed of it, one trace each; gone once derived/<key> is there
      answers/<key>.txt           what is quicker read than made again: diagnoses, ranks, what objects elsewhere are
      catalog.duckdb              every table and metric as documented views, for any DuckDB client
      catalog.txt                 which derived tables it shows (those asked for last), and what it looked like

A folder appears under its name only when it is complete; a command that is later finds it there and drops its own. Its
seal says what was in it: a folder that lacks a file, or has another one, is made again.
"""

from __future__ import annotations

import errno
import json
import os
import re
import socket
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.location import is_url, without_credentials
from traceanalyzer.store.folders import (
    file_seal,
    held,
    is_held,
    is_own_folder,
    is_sealed,
    keyed_hash,
    make_own_folder,
    put_in_place,
    read_own,
    read_own_text,
    remove,
    seal,
)
from traceanalyzer.store.inputs import (
    DERIVED_SOURCES,
    TRACE_SOURCES,
    check_unchanged,
    digest_of,
    engine_key,
    place_of,
    stamp_of,
)
from traceanalyzer.store.owner import UNWRITABLE, claim_store, user_cache, user_key
from traceanalyzer.unfinished import unfinished

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location
    from traceanalyzer.remote.remote_object import RemoteObject

STORE_NAME = ".traceanalyzer"
CATALOG_NAME = "catalog.duckdb"
_CATALOG_SHOWS = "catalog.txt"
_DERIVED_FROM = "traces.txt"
# A folder of a killed command is removed by the next one; where locks do not work, once nobody can still write it.
_ABANDONED_AFTER_S = 86_400
_SCRATCH_PREFIX = "write-"
# The names that a store gives: nothing else in it is ever removed.
_SCRATCH_NAME = re.compile(rf"{_SCRATCH_PREFIX}\w+", re.ASCII)
_TRACE_NAME = re.compile(r"[\w.-]{1,80}-[0-9a-f]{16}", re.ASCII)
_DERIVED_NAME = re.compile(r"[0-9a-f]{16}")
# What the ranks of a run have in common: the first folder that is written for them.
MATCHED = "matched"
# How long a folder that another machine wrote may take to be seen here: file systems on a network remember names.
_PATIENCE_S = 60.0
_PAUSE_S = 0.1
_ANSWER_NAME = re.compile(r"[0-9a-f]{16}\.txt")
_MOST_ANSWERS = 32
_WRITE_FAILURES = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EROFS)


class StoreWriteError(TraceAnalyzerError):
    """The store cannot be written: no fault of a trace, and no trace is left out for it."""


@dataclass(frozen=True)
class StoreLocation:
    """Where a run's store lies, and the store in the run's own folder that is not trusted, if there is one."""

    folder: Path
    ignored: Path | None = None


def locate_store(root: Path | Location, override: Path | None) -> StoreLocation:
    """Return where a run's store lies: in the given folder, in the run's own folder, or in the user's cache.

    That of a run in an object store lies in the cache.
    """
    key = user_key()
    if override is not None:
        if is_url(str(override)):
            raise TraceAnalyzerError(
                "a store lies on a disk of this machine, and not behind a URL",
                without_credentials(str(override)),
                "give --store a folder",
            )
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


class Store:
    """The stored traces of one folder, which `locate_store` has found to be the user's."""

    def __init__(self, folder: Path) -> None:
        # Whole, because Arrow takes a path that begins with `name:` for a URL.
        self.folder = folder.absolute()
        self._key = user_key()

    def trace_folder(self, source: Path | RemoteObject, ingest: Callable[[Path], None]) -> tuple[Path, bool]:
        """Return the folder with a file's tables and whether it was there already; `ingest` fills it if not."""
        remembered = self._read_source(source)
        # Remembered is what the file looked like before it was read: after a write meanwhile it looks otherwise.
        stamp = stamp_of(source)
        digest: str | None = None
        if remembered is not None:
            digest = remembered.digest if remembered.stamp == stamp else digest_of(source)
            check_unchanged(source, stamp)
            target = self._trace_target(source, digest)
            if is_sealed(target, self._key):
                self._remember(source, stamp, digest, target)
                return target, True
        target = self._ingest_new(source, stamp, digest, ingest)
        if remembered is not None:
            self._forget(remembered.folder)
        return target, False

    def held_traces(self, source: Path | RemoteObject) -> Path | None:
        """Return the folder with a file's tables; None where the file has to be read, or hashed, to know it."""
        remembered = self._read_source(source)
        if remembered is None or remembered.stamp != stamp_of(source):
            return None
        target = self._trace_target(source, remembered.digest)
        return target if is_sealed(target, self._key) else None

    def written_elsewhere(self, name: str) -> Path:
        """Return a folder of traces that another process says it wrote; raises TraceAnalyzerError where none comes."""
        return self._seen(self.folder / "traces" / name)

    def keep_failure(self, source: Path | RemoteObject, stamp: list[int]) -> None:
        """Remember that a file cannot be read, for as long as it looks the same."""
        file = self._failure_file(source)
        make_own_folder(file.parent)
        self._replace_file(file, lambda fresh: fresh.write_text(json.dumps(stamp)))

    def is_known_failure(self, source: Path | RemoteObject) -> bool:
        """Return whether a file could not be read, and looks the same since."""
        try:
            return bool(json.loads(read_own_text(self._failure_file(source)) or "[]") == stamp_of(source))
        except (ValueError, RecursionError):
            return False

    def _failure_file(self, source: Path | RemoteObject) -> Path:
        return self.folder / "sources" / f"{self._hash(f'{engine_key(TRACE_SOURCES)} {place_of(source)}')}.failed.json"

    def _seen(self, target: Path) -> Path:
        until_s = time.monotonic() + _PATIENCE_S
        while not is_sealed(target, self._key):
            if time.monotonic() > until_s:
                hint = "give --store a folder that all workers share with this machine, under the same path"
                raise TraceAnalyzerError("a worker wrote this, and it cannot be seen here", target, hint)
            time.sleep(_PAUSE_S)
            with suppress(OSError):
                list(target.parent.iterdir())  # asks the file system again
        return target

    def _ingest_new(
        self, source: Path | RemoteObject, stamp: list[int], digest: str | None, ingest: Callable[[Path], None]
    ) -> Path:
        with self._scratch() as scratch:
            with ThreadPoolExecutor(1) as beside:
                hashing = beside.submit(digest_of, source) if digest is None else None
                ingest(scratch)
                found = digest or (hashing.result() if hashing else "")
            check_unchanged(source, stamp)
            target = self._trace_target(source, found)
            self._publish(scratch, target)
        self._remember(source, stamp, found, target)
        return target

    def derived_place(self, traces: Sequence[Path], options: str) -> Path:
        """Return where a set of traces' attribution lies, once it is there.

        `options` is what it is asked for with: tables made under other options are other tables.
        """
        parts = [engine_key(DERIVED_SOURCES), options, *(_relative(trace, self.folder) for trace in traces)]
        return self.folder / "derived" / self._hash("\n".join(parts))

    def derived_folder(self, target: Path, traces: Sequence[Path], compute: Callable[[Path], None]) -> Path:
        """Return the folder with a set of traces' attribution; `compute` fills it if it is not there."""
        if not self.is_whole(target):
            self._fill(target, traces, compute)
            remove(self.folder / "ranks" / target.name)
        return target

    def is_whole(self, target: Path) -> bool:
        """Return whether a folder of the store is there and is what it was when it was written."""
        return is_sealed(target, self._key)

    def rank_folder(
        self, derived: str, name: str, traces: Sequence[Path], compute: Callable[[Path], None]
    ) -> tuple[Path, bool]:
        """Return a part of a set of traces' attribution and whether it was there; `compute` fills it if not.

        `derived` is the name of the folder that it will be put into. The part `MATCHED` comes first, and who else wants
        it waits for who is first, as far as the file system has locks.
        """
        folder = make_own_folder(make_own_folder(self.folder / "ranks") / derived)
        target = folder / name
        with held(folder) if name == MATCHED else nullcontext():
            was_there = self.is_whole(target)
            if not was_there:
                self._fill(target, traces, compute)
        return target, was_there

    def find_rank_folder(self, derived: str, name: str) -> Path | None:
        """Return a part of a set of traces' attribution; None where it is not there."""
        target = self.folder / "ranks" / derived / name
        return target if self.is_whole(target) else None

    def rank_written_elsewhere(self, derived: str, name: str) -> Path:
        """Return a part that another process says it wrote; raises TraceAnalyzerError where it cannot be seen."""
        return self._seen(self.folder / "ranks" / derived / name)

    def _fill(self, target: Path, traces: Sequence[Path], compute: Callable[[Path], None]) -> None:
        with self._scratch() as scratch:
            compute(scratch)
            (scratch / _DERIVED_FROM).write_text("\n".join(trace.parent.name for trace in traces))
            self._publish(scratch, target)

    def kept_answer(self, question: str) -> bytes | None:
        """Return the answer that was kept to a question, None where there is none or it was changed since."""
        file = self._answer_file(question)
        written, _, answer = (read_own(file) or b"").partition(b"\n")
        return answer if written.decode(errors="replace") == self._answer_seal(file, answer) else None

    def keep_answer(self, question: str, answer: bytes) -> None:
        """Keep the answer to a question that names all it depends on; the oldest answers make room.

        A store that cannot be written keeps none: the answer is there without it.
        """
        file = self._answer_file(question)
        content = f"{self._answer_seal(file, answer)}\n".encode() + answer
        with suppress(OSError, TraceAnalyzerError):
            make_own_folder(file.parent)
            self._replace_file(file, lambda fresh: fresh.write_bytes(content))
            kept = [path for path in self._entries("answers") if _ANSWER_NAME.fullmatch(path.name)]
            for oldest in sorted(kept, key=_written_ns)[:-_MOST_ANSWERS]:
                remove(oldest)

    def _answer_file(self, question: str) -> Path:
        return self.folder / "answers" / f"{self._hash(question)}.txt"

    def _answer_seal(self, file: Path, answer: bytes) -> str:
        return keyed_hash(file.name.encode() + answer, self._key, size_bytes=16)

    def has_catalog(self) -> bool:
        """Return whether anything lies where the catalogue does."""
        return os.path.lexists(self.folder / CATALOG_NAME)

    def catalog_shows(self) -> str | None:
        """Return the name of the derived folder that the catalogue shows, '' for none; None: there is no catalogue."""
        shows, _, looked_like = (read_own_text(self.folder / _CATALOG_SHOWS) or "").partition("\n")
        return shows if looked_like and looked_like == file_seal(self.folder / CATALOG_NAME, self._key) else None

    def replace_catalog(self, shows: str, write: Callable[[Path], object]) -> None:
        """Write the catalogue, and remember which derived folder it shows."""
        catalog = self.folder / CATALOG_NAME
        self._replace_file(catalog, write)
        text = f"{shows}\n{file_seal(catalog, self._key)}"
        self._replace_file(self.folder / _CATALOG_SHOWS, lambda file: file.write_text(text))

    def _replace_file(self, file: Path, write: Callable[[Path], object]) -> None:
        """Write a file of the store and put it in place at once."""
        with self._scratch() as scratch:
            fresh = scratch / file.name
            write(fresh)
            fresh.chmod(0o600)
            put_in_place(fresh, file)

    @contextmanager
    def _scratch(self) -> Iterator[Path]:
        """Give a new folder to write in, which is removed again unless it was published.

        Raises StoreWriteError where it cannot be written.
        """
        try:
            with ExitStack() as stack:
                scratch = self._new_scratch(stack)
                stack.enter_context(unfinished(scratch))
                try:
                    yield scratch
                finally:
                    remove(scratch)
        except Exception as error:
            if cause := self._write_failure(error):
                hint = "make room there, or give --store DIR on a disk with more"
                raise StoreWriteError(f"the store cannot be written: {cause}", self.folder, hint) from error
            raise

    def _write_failure(self, error: Exception) -> str | None:
        """Return why the store could not be written, if this error says so; reading a trace may fail, too."""
        if isinstance(error, OSError):
            in_store = error.filename is not None and self.folder in Path(os.fsdecode(error.filename)).parents
            known = error.errno in _WRITE_FAILURES
            return os.strerror(error.errno) if error.errno is not None and (known or in_store) else None
        import duckdb  # whoever finds all in the store starts without it

        if not isinstance(error, duckdb.IOException):
            return None
        causes = (os.strerror(number) for number in _WRITE_FAILURES)  # DuckDB gives them as text
        return next((cause for cause in causes if cause in str(error)), None)

    def _new_scratch(self, stack: ExitStack) -> Path:
        """Return a new folder, held until `stack` is left; those that killed commands left behind are removed."""
        folder = make_own_folder(self.folder / "scratch")
        with held(folder):  # between making a folder and holding it
            for left in folder.iterdir():
                if _SCRATCH_NAME.fullmatch(left.name) and is_own_folder(left) and _is_abandoned(left):
                    remove(left)
            scratch = Path(tempfile.mkdtemp(prefix=_scratch_prefix(), dir=folder))
            stack.enter_context(held(scratch))
        return scratch

    def _publish(self, scratch: Path, target: Path) -> None:
        make_own_folder(target.parent)
        seal(scratch, self._key)
        with suppress(OSError):
            scratch.rename(target)  # fails where a folder is there that holds anything
            return
        if not is_sealed(target, self._key):  # else another command was faster
            put_in_place(scratch, target)

    def _trace_target(self, source: Path | RemoteObject, digest: str) -> Path:
        name = re.sub(r"[^\w.-]+", "_", source.name, flags=re.ASCII)[:80]
        # Copies of one file are traces of their own: ranks may lie in `rank0/trace.json` and `rank1/trace.json`.
        return (
            self.folder / "traces" / f"{name}-{self._hash(f'{engine_key(TRACE_SOURCES)} {digest} {place_of(source)}')}"
        )

    def _source_file(self, source: Path | RemoteObject) -> Path:
        return self.folder / "sources" / f"{self._hash(place_of(source))}.json"

    def _read_source(self, source: Path | RemoteObject) -> _Source | None:
        return _parse_source(read_own_text(self._source_file(source)))

    def _remember(self, source: Path | RemoteObject, stamp: list[int], digest: str, target: Path) -> None:
        facts = _Source(place_of(source), stamp, digest, target.name)
        if self._read_source(source) != facts:
            file = self._source_file(source)
            make_own_folder(file.parent)
            text = json.dumps(asdict(facts))
            self._replace_file(file, lambda fresh: fresh.write_text(text))

    def _forget(self, name: str) -> None:
        """Remove the tables of what a file held before, and all derived from them, unless a file still holds it."""
        records = (_parse_source(read_own_text(file)) for file in self._entries("sources"))
        if any(record is not None and record.folder == name for record in records):
            return
        remove(self.folder / "traces" / name)
        for made in (*self._entries("derived"), *self._entries("ranks")):
            inner = MATCHED if made.parent.name == "ranks" else "."
            origins = read_own_text(made / inner / _DERIVED_FROM) if _DERIVED_NAME.fullmatch(made.name) else None
            if is_own_folder(made) and name in (origins or "").splitlines():
                remove(made)

    def _entries(self, part: str) -> list[Path]:
        folder = self.folder / part
        return list(folder.iterdir()) if is_own_folder(folder) else []

    def _hash(self, text: str) -> str:
        """Return a name in the store. Without the user's key nobody can foresee it, and plant a folder under it."""
        return keyed_hash(text.encode(errors="surrogateescape"), self._key)


@dataclass(frozen=True)
class _Source:
    """What is remembered of a file: what it looked like, its content's hash, and the name of its folder of traces."""

    path: str
    stamp: list[int]
    digest: str
    folder: str


def _parse_source(text: str | None) -> _Source | None:
    """Return what a record says, if it is one that a store wrote."""
    try:
        facts = json.loads(text or "")
        source = _Source(str(facts["path"]), list(facts["stamp"]), str(facts["digest"]), str(facts["folder"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return source if _TRACE_NAME.fullmatch(source.folder) else None


def _written_ns(file: Path) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except FileNotFoundError:  # another command has just removed it
        return 0


def _scratch_prefix() -> str:
    """Return what the names of folders begin with that this machine writes in."""
    return f"{_SCRATCH_PREFIX}{keyed_hash(socket.gethostname().encode(), b'', size_bytes=4)}_"


def _is_abandoned(scratch: Path) -> bool:
    """Return whether no process writes in a folder any more; where that cannot be known, by its age.

    Some file systems on a network keep the locks of each machine apart: of another machine's folders, they say nothing.
    """
    being_written = is_held(scratch)
    if being_written or (being_written is False and scratch.name.startswith(_scratch_prefix())):
        return not being_written
    try:
        return time.time() - os.lstat(scratch).st_mtime > _ABANDONED_AFTER_S
    except FileNotFoundError:  # another thread or command has just finished with it
        return False


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
