"""What stored tables are made from, and answers kept under what made them.

Tables are made from the content of the traces' files and by the code that reads them. The catalogue of a store says
which tables it shows, and whether it is the one that was written.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from fnmatch import fnmatchcase
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

import xxhash
from msgspec import Struct
from msgspec.structs import asdict, replace

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store import writing

if TYPE_CHECKING:
    from traceanalyzer.remote.remote_object import RemoteObject

_PACKAGE = Path(__file__).parents[1]
_CODE = (".py", ".sql", ".c", ".h")
_HASH_BLOCK_BYTES = 4 * 2**20
# What decides the content of the tables: a change there makes stored ones stale.
TRACE_SOURCES = (
    *("__init__.py", "display.py", "errors.py", "process.py", "version.py"),
    *("discovery", "schema", "ingest", "remote", "text", "macros/calls_to.sql"),
)
DERIVED_SOURCES = (
    *TRACE_SOURCES,
    "run.py",
    "pipeline",
    "query",
    "macros",
    "store/writing.py",
    "store/owner.py",
    "store/__init__.py",
    "store/inputs.py",
    "attribution",
    "metrics/__init__.py",
    "metrics/kernels/kernel_class_*.sql",
    "metrics/recording/recordings.sql",
    "metrics/launches/captured_launches.sql",
    "metrics/launches/graph_*.sql",
)


def stamp_of(source: Path | RemoteObject) -> list[int]:
    """Return what changes whenever a file is written: size, times, inode, version. Reading it costs nothing."""
    if not isinstance(source, Path):
        return [source.entry.size_bytes, int(source.digest, 16)]
    if source.is_dir():
        return [value for file in _files(source) for value in stamp_of(file)]
    states = [file.stat() for file in _with_log(source)]
    return [n for state in states for n in (state.st_size, state.st_mtime_ns, state.st_ctime_ns, state.st_ino)]


def check_unchanged(source: Path | RemoteObject, stamp: list[int]) -> None:
    """Raise TraceAnalyzerError if an input was written since its stamp was taken."""
    if stamp_of(source) != stamp:
        raise TraceAnalyzerError("the file changed while it was read", str(source), "wait until it is complete")


def _files(folder: Path) -> list[Path]:
    """Return the files of an input that is a folder; a store inside it is none of them."""
    return sorted(file for file in folder.iterdir() if file.is_file() and not file.name.startswith("."))


def _with_log(file: Path) -> list[Path]:
    """Return a file and the log of a database that is read with it, see ingest/nsys/__init__.py."""
    log = file.with_name(f"{file.name}-wal")
    return [file, log] if log.is_file() else [file]


def digest_of(source: Path | RemoteObject) -> str:
    """Return the hash of a file's content, or of a folder's files; of an object, of its URL, size and version.

    Nobody gains by forging a trace, so the hash need not withstand it: it costs a tenth of a cryptographic one.
    """
    if not isinstance(source, Path):
        return source.digest
    digest = xxhash.xxh3_128()
    for file in _files(source) if source.is_dir() else _with_log(source):
        with file.open("rb") as content:
            while block := content.read(_HASH_BLOCK_BYTES):
                digest.update(block)
    return digest.hexdigest()


def place_of(source: Path | RemoteObject) -> str:
    """Return where a file or an object lies, the same by whatever name it was reached."""
    return str(source.resolve()) if isinstance(source, Path) else source.url


@cache
def engine_key(parts: tuple[str, ...]) -> str:
    """Return a hash of the code that decides what tables hold."""
    digest = hashlib.blake2b(digest_size=8)
    for name in engine_files(parts):
        digest.update(f"{name} ".encode() + _code_digest(name))
    return digest.hexdigest()


def engine_files(parts: Sequence[str]) -> list[str]:
    """Return the files of code in parts of the package, by their paths in it.

    Parts are files, patterns, and folders with all below them.
    """
    patterns = [part for part in parts if "*" in part]
    folders = tuple(f"{part}/" for part in parts)
    return [
        name
        for name in _code(str(_PACKAGE))
        if name in parts or name.startswith(folders) or any(fnmatchcase(name, pattern) for pattern in patterns)
    ]


@cache
def _code(package: str) -> tuple[str, ...]:
    """Return the paths of all code below the package; a command asks for several parts, and looks once."""
    found = []
    for folder, below, files in os.walk(package):
        below[:] = [name for name in below if name != "__pycache__"]
        found += [f"{folder}/{file}".removeprefix(f"{package}/") for file in files if file.endswith(_CODE)]
    return tuple(sorted(found))


@cache
def _code_digest(name: str) -> bytes:
    return xxhash.xxh3_128_digest((_PACKAGE / name).read_bytes())


class StoredTrace(Struct, frozen=True):
    """One trace's folder of Parquet files, and what the run knows about the trace."""

    folder: Path
    trace: str
    path: Path | RemoteObject
    rank: int | None
    rank_source: str | None

    def below(self, store: Path) -> StoredTrace:
        """Return it with its folder's whole path, for a process that works in another folder."""
        return replace(self, folder=store / "traces" / self.folder.parent.name / self.folder.name)


class NcuTable(Struct, frozen=True):
    """One table of Nsight Compute: its folder of Parquet files, and what the table is called in the run."""

    folder: Path
    file: str


CATALOG_NAME = "catalog.duckdb"
_SHOWS = "catalog.txt"


class CatalogFile:
    def __init__(self, writer: writing.StoreWriter) -> None:
        self._writer = writer
        self._file = writer.folder / CATALOG_NAME
        self._note = writer.folder / _SHOWS

    def exists(self) -> bool:
        """Return whether anything lies where the catalogue does."""
        return os.path.lexists(self._file)

    def shows(self) -> str | None:
        """Return the name of the derived folder that the catalogue shows, '' for none; None: there is no catalogue."""
        shows, _, looked_like = (writing.read_own_text(self._note) or "").partition("\n")
        return shows if looked_like and looked_like == writing.file_seal(self._file, self._writer.key) else None

    def replace(self, shows: str, write: Callable[[Path], object]) -> None:
        """Write the catalogue, and remember which derived folder it shows."""
        self._writer.replace_file(self._file, write)
        text = f"{shows}\n{writing.file_seal(self._file, self._writer.key)}"
        self._writer.replace_file(self._note, lambda file: file.write_text(text))


TRACE_NAME = re.compile(r"[\w.-]{1,80}-[0-9a-f]{16}", re.ASCII)


class SourceRecord(Struct, frozen=True):
    """What is remembered of a file: what it looked like, its content's hash, and the name of its folder of traces."""

    path: str
    stamp: list[int]
    digest: str
    folder: str

    def text(self) -> str:
        return json.dumps(asdict(self))


def parse_record(text: str | None) -> SourceRecord | None:
    """Return what a record says, if it is one that a store wrote."""
    try:
        facts = json.loads(text or "")
        source = SourceRecord(str(facts["path"]), list(facts["stamp"]), str(facts["digest"]), str(facts["folder"]))
    except (ValueError, TypeError, KeyError, RecursionError):
        return None
    return source if TRACE_NAME.fullmatch(source.folder) else None


_NAME = re.compile(r"[0-9a-f]{16}\.txt")
_MOST = 32


class KeptAnswers:
    def __init__(self, writer: writing.StoreWriter) -> None:
        self._writer = writer
        self._folder = writer.folder / "answers"

    def get(self, question: str) -> bytes | None:
        """Return the answer that was kept to a question, None where there is none or it was changed since."""
        file = self._file(question)
        written, _, answer = (writing.read_own(file) or b"").partition(b"\n")
        return answer if written.decode(errors="replace") == self._seal(file, answer) else None

    def keep(self, question: str, answer: bytes) -> None:
        """Keep the answer to a question that names all it depends on; the oldest answers make room.

        A store that cannot be written keeps none: the answer is there without it.
        """
        file = self._file(question)
        content = f"{self._seal(file, answer)}\n".encode() + answer
        with suppress(OSError, TraceAnalyzerError):
            writing.make_own_folder(self._folder)
            self._writer.replace_file(file, lambda fresh: fresh.write_bytes(content))
            entries = self._folder.iterdir() if writing.is_own_folder(self._folder) else ()
            kept = [path for path in entries if _NAME.fullmatch(path.name)]
            for oldest in sorted(kept, key=_written_ns)[:-_MOST]:
                writing.remove(oldest)

    def _file(self, question: str) -> Path:
        return self._folder / f"{writing.keyed_hash(question.encode(errors='surrogateescape'), self._writer.key)}.txt"

    def _seal(self, file: Path, answer: bytes) -> str:
        return writing.keyed_hash(file.name.encode() + answer, self._writer.key, size_bytes=16)


def _written_ns(file: Path) -> int:
    try:
        return os.lstat(file).st_mtime_ns
    except FileNotFoundError:  # another command has just removed it
        return 0
