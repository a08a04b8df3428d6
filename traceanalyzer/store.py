"""A run's store: Parquet folders named by content, written atomically, reused while input and engine stay the same.

    store/
      sources/<path hash>.json    what a file looked like when it was last read, and its content's hash
      traces/<name>-<key>/        one file's traces, each a folder of canonical tables
      derived/<key>/              attribution tables of one set of traces under one set of options
      catalog.duckdb              every table and metric as documented views, for any DuckDB client
      catalog.txt                 which derived tables it shows: those asked for last

A folder appears under its name only when it is complete; whoever is late finds it there and drops its own.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import tempfile
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import cache
from pathlib import Path

import xxhash

from traceanalyzer.errors import TraceAnalyzerError

STORE_NAME = ".traceanalyzer"
_PACKAGE = Path(__file__).parent
_HASH_BLOCK_BYTES = 4 * 2**20
CATALOG_NAME = "catalog.duckdb"
_CATALOG_SHOWS = "catalog.txt"
_DERIVED_FROM = "traces.txt"
# What a killed command left behind is removed by a later one, once nobody can still be writing it.
_ABANDONED_AFTER_S = 86_400
# What decides the content of the tables: a change there makes stored ones stale.
_TRACE_SOURCES = ("schema", "ingest")
_DERIVED_SOURCES = ("schema", "ingest", "attribution")


def locate_store(root: Path, override: Path | None) -> Path:
    """Return the store's folder for a run: the given one, the run's own folder, or the user's cache."""
    if override is not None:
        if not _writable(override):
            raise TraceAnalyzerError("the store cannot be written", override, "give --store a writable folder")
        return override
    home = root if root.is_dir() else root.parent
    own = home / STORE_NAME
    if _writable(own):
        return own
    cache_home = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache")
    cached = cache_home / "traceanalyzer" / _hash(str(home.resolve()).encode())
    if _writable(cached):
        return cached
    raise TraceAnalyzerError("neither the run's folder nor the user's cache can be written", home, "give --store DIR")


def _writable(folder: Path) -> bool:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            return True
    except OSError:
        return False


class Store:
    """The stored traces of one folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def trace_folder(self, source: Path, ingest: Callable[[Path], None]) -> tuple[Path, bool]:
        """Return the folder with a file's tables and whether it was there already; `ingest` fills it if not."""
        remembered = self._read_source(source)
        digest: str | None = None
        if remembered is not None:
            digest = str(remembered["digest"]) if remembered["stamp"] == _stamp(source) else _digest(source)
            target = self._trace_target(source, digest)
            if target.is_dir():
                self._remember(source, digest, target)
                return target, True
        target = self._ingest_new(source, digest, ingest)
        if remembered is not None:
            self._forget(str(remembered["folder"]))
        return target, False

    def _ingest_new(self, source: Path, digest: str | None, ingest: Callable[[Path], None]) -> Path:
        stamp = _stamp(source)
        scratch = self._scratch()
        try:
            with ThreadPoolExecutor(1) as beside:
                hashing = beside.submit(_digest, source) if digest is None else None
                ingest(scratch)
                found = digest or (hashing.result() if hashing else "")
            if _stamp(source) != stamp:
                raise TraceAnalyzerError("the file changed while it was read", source, "wait until it is complete")
            target = self._trace_target(source, found)
            self._publish(scratch, target)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)
        self._remember(source, found, target)
        return target

    def derived_folder(self, traces: Sequence[Path], options: str, compute: Callable[[Path], None]) -> Path:
        """Return the folder with a set of traces' attribution; `compute` fills it if it is not there.

        `options` is what it was asked for with: tables made under other options are other tables.
        """
        parts = [engine_key(_DERIVED_SOURCES), options, *(_relative(trace, self.folder) for trace in traces)]
        key = _hash("\n".join(parts).encode())
        target = self.folder / "derived" / key
        if not target.is_dir():
            scratch = self._scratch()
            try:
                compute(scratch)
                (scratch / _DERIVED_FROM).write_text("\n".join(trace.parent.name for trace in traces))
                self._publish(scratch, target)
            finally:
                shutil.rmtree(scratch, ignore_errors=True)
        return target

    def catalog_shows(self) -> str | None:
        """Return the name of the derived folder that the catalogue shows, '' for none; None: there is no catalogue."""
        try:
            return (self.folder / _CATALOG_SHOWS).read_text() if (self.folder / CATALOG_NAME).exists() else None
        except OSError:
            return None

    def replace_catalog(self, shows: str, write: Callable[[Path], object]) -> None:
        """Write the catalogue, and remember which derived folder it shows."""
        self.replace_file(self.folder / CATALOG_NAME, write)
        self.replace_file(self.folder / _CATALOG_SHOWS, lambda file: file.write_text(shows))

    def replace_file(self, file: Path, write: Callable[[Path], object]) -> None:
        """Write a file of the store and put it in place at once."""
        scratch = self._scratch()
        try:
            write(scratch / file.name)
            (scratch / file.name).replace(file)
        finally:
            shutil.rmtree(scratch, ignore_errors=True)

    def _scratch(self) -> Path:
        folder = self.folder / "scratch"
        folder.mkdir(parents=True, exist_ok=True)
        for left in folder.iterdir():
            with suppress(FileNotFoundError):  # another thread or command has just finished with it
                if left.stat().st_mtime < time.time() - _ABANDONED_AFTER_S:
                    shutil.rmtree(left, ignore_errors=True)
        return Path(tempfile.mkdtemp(dir=folder))

    def _publish(self, scratch: Path, target: Path) -> None:
        target.parent.mkdir(parents=True, exist_ok=True)
        try:
            scratch.rename(target)
        except OSError:
            if not target.is_dir():
                raise

    def _trace_target(self, source: Path, digest: str) -> Path:
        name = re.sub(r"[^\w.-]+", "_", source.name)[:80]
        key = _hash(f"{engine_key(_TRACE_SOURCES)} {digest}".encode())
        return self.folder / "traces" / f"{name}-{key}"

    def _source_file(self, source: Path) -> Path:
        return self.folder / "sources" / f"{_hash(str(source.resolve()).encode())}.json"

    def _read_source(self, source: Path) -> dict[str, object] | None:
        """Return what is remembered of a file, if it is whole."""
        try:
            remembered = json.loads(self._source_file(source).read_text())
        except (OSError, ValueError):
            return None
        whole = isinstance(remembered, dict) and remembered.keys() >= {"path", "stamp", "digest", "folder"}
        return remembered if whole else None

    def _remember(self, source: Path, digest: str, target: Path) -> None:
        file = self._source_file(source)
        facts = {"path": str(source.resolve()), "stamp": _stamp(source), "digest": digest, "folder": target.name}
        if self._read_source(source) != facts:
            file.parent.mkdir(parents=True, exist_ok=True)
            text = json.dumps(facts)
            self.replace_file(file, lambda fresh: fresh.write_text(text))

    def _forget(self, name: str) -> None:
        """Remove the tables of what a file held before, and all derived from them, unless a file still holds it."""
        for file in (self.folder / "sources").glob("*.json"):
            try:
                if json.loads(file.read_text())["folder"] == name:
                    return
            except (OSError, ValueError, KeyError):
                continue
        shutil.rmtree(self.folder / "traces" / name, ignore_errors=True)
        for origin in (self.folder / "derived").glob(f"*/{_DERIVED_FROM}"):
            if name in origin.read_text().splitlines():
                shutil.rmtree(origin.parent, ignore_errors=True)


def _stamp(source: Path) -> list[int]:
    """Return what changes whenever a file is written: size, times, inode. Reading it costs nothing."""
    if source.is_dir():
        return [value for file in _files(source) for value in _stamp(file)]
    state = source.stat()
    return [state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino]


def _files(folder: Path) -> list[Path]:
    """Return the files of an input that is a folder; a store inside it is none of them."""
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _digest(source: Path) -> str:
    """Return the hash of a file's content, or of a folder's files.

    Nobody gains by forging a trace, so the hash need not withstand it: it costs a tenth of a cryptographic one.
    """
    digest = xxhash.xxh3_128()
    for file in _files(source) if source.is_dir() else [source]:
        with file.open("rb") as content:
            while block := content.read(_HASH_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def _hash(data: bytes) -> str:
    return hashlib.blake2b(data, digest_size=8).hexdigest()


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)


@cache
def engine_key(parts: tuple[str, ...]) -> str:
    """Return a hash of the code that decides what tables hold."""
    digest = hashlib.blake2b(digest_size=8)
    for part in parts:
        for file in sorted((_PACKAGE / part).rglob("*")):
            if file.suffix in (".py", ".sql"):
                digest.update(file.relative_to(_PACKAGE).as_posix().encode())
                digest.update(file.read_bytes())
    return digest.hexdigest()
