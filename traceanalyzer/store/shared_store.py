"""A store in a bucket, which machines share: finished folders are published there, and fetched into working copies.

    store/
      traceanalyzer-store.json             says that the place is a store
      sources/<hash of place>.json         what a file looked like when it was read, and the name of its traces' folder
      traces/<name>-<key>/<attempt>/…      one file's traces, written by one attempt
      traces/<name>-<key>/done.json        names the attempt that counts, its files, their sizes and checksums
      derived/<key>/…                      attribution of one set of traces, likewise
      ranks/<key>/<number>/…               what tasks computed of it, likewise

Nothing is renamed or locked: `done.json` is written last, and only where there is none. Whoever comes second takes what
the first wrote, and removes its own attempt. `sweep` removes what no command will read: attempts that were never
finished, or do not count.
"""

from __future__ import annotations

import hashlib
import json
import re
import secrets
import time
from collections import defaultdict
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.remote.bucket import Bucket, SmallObject
from traceanalyzer.remote.location import Entry, Location
from traceanalyzer.remote.remote_object import RemoteObject, fetch
from traceanalyzer.store.writing import SEAL_NAME, StoreError

DONE = "done.json"
ATTEMPT = re.compile(r"[0-9a-f]{16}")
_ATTEMPT_BYTES = 8
_MARK = "traceanalyzer-store.json"
_FORMAT = b'{"format": 1, "made by": "traceanalyzer, from traces: it is safe to delete all below this place"}\n'
_SHA256 = re.compile(r"[0-9a-f]{64}")
# What ingesters and attribution call their files: in the folder, or in a folder of it.
_FILE = re.compile(r"(?:[A-Za-z0-9_][\w.-]{0,99}/)?[A-Za-z0-9_][\w.-]{0,99}", re.ASCII)
_MOST_FILES = 20_000
_MOST_BYTES = 8 * 2**20
_AT_ONCE = 8
_ANOTHER = "give a folder of the bucket in which nothing else lies"


@dataclass(frozen=True)
class PublishedFile:
    """What `done.json` says of a file."""

    size_bytes: int
    sha256: str


@dataclass(frozen=True)
class Done:
    """An attempt that counts, and its files by their paths in the folder."""

    attempt: str
    files: dict[str, PublishedFile]


class SharedStore:
    """The folders that are published in one place; raises StoreError where it cannot be read or written.

    Who can write there decides what tables say. So names, sizes and checksums are verified, and nothing that is there
    names a place outside the folder that is fetched.
    """

    def __init__(self, location: Location) -> None:
        self.location = location
        with _as_store_error():
            self.bucket = Bucket(location)
        self._there: dict[str, SmallObject] = {}
        self._damaged: dict[str, SmallObject] = {}

    def url_of(self, name: str) -> str:
        return f"{self.location.base}{self.key_of(name)}"

    def key_of(self, name: str) -> str:
        return f"{self.location.key}/{name}".lstrip("/")

    def claim(self) -> None:
        """See that the place is a store, or make it one, ahead of long work; raises StoreError where it cannot be."""
        mark = self.versioned(_MARK)
        if mark is None and self.put_new(_MARK, _FORMAT):
            return
        self._check(mark or self.versioned(_MARK))

    def check(self) -> None:
        """Raise StoreError where the place is no store, or one of another version."""
        self._check(self.versioned(_MARK))

    def _check(self, mark: SmallObject | None) -> None:
        if mark is None:
            raise StoreError("holds no store", str(self.location), "give what --store was given")
        if mark.data != _FORMAT:
            raise StoreError("is the store of another version of traceanalyzer", str(self.location), _ANOTHER)

    def has(self, name: str) -> bool:
        """Return whether a folder is published; the answer is remembered, as nothing that is published goes."""
        return self._known_done(name) is not None

    def fetch(self, name: str, folder: Path, only: re.Pattern[str] = _FILE) -> bool:
        """Fill an empty folder with a published one, or with some files of it.

        Returns False where it is not there, or damaged.
        """
        found = self._known_done(name)
        if found is None:
            return False
        done = parse_done(found.data)
        if done is not None and self._fetch_files(
            name, done, [file for file in done.files if only.fullmatch(file)], folder
        ):
            return True
        del self._there[name]
        self._damaged[name] = found
        return False

    def publish(self, name: str, folder: Path) -> bool:
        """Publish a folder; return False where it was published before, other than damaged."""
        attempt = secrets.token_hex(_ATTEMPT_BYTES)
        files = {path.relative_to(folder).as_posix(): path for path in sorted(folder.rglob("*")) if path.is_file()}
        files.pop(SEAL_NAME, None)
        keys = {file: self.key_of(f"{name}/{attempt}/{file}") for file in files}

        def put(file: str) -> PublishedFile:
            self.bucket.put(keys[file], files[file])
            return PublishedFile(files[file].stat().st_size, _sha256_of(files[file]))

        with _as_store_error(), ThreadPoolExecutor(_AT_ONCE) as pool:
            done = Done(attempt, dict(zip(files, pool.map(put, files), strict=True)))
            if self._put_done(name, done):
                return True
            self.bucket.delete(list(keys.values()))
        return False

    def _put_done(self, name: str, done: Done) -> bool:
        """Have an attempt count, unless another one does; what was found damaged counts no more."""
        return self.put_over(f"{name}/{DONE}", json.dumps(asdict(done)).encode(), self._damaged.pop(name, None))

    def versioned(self, name: str) -> SmallObject | None:
        """Return a record with the version that `put_over` asks for; None where there is none."""
        with _as_store_error():
            return self.bucket.get(self.key_of(name), _MOST_BYTES)

    def text(self, name: str) -> str | None:
        found = self.versioned(name)
        return None if found is None else found.data.decode(errors="replace")

    def put_text(self, name: str, text: str) -> None:
        """Write a record, unless it is there."""
        if self.text(name) != text:
            with _as_store_error():
                self.bucket.put(self.key_of(name), text.encode())

    def put_new(self, name: str, data: bytes) -> bool:
        """Write a record where there is none; return False where there is another one."""
        return self.put_over(name, data, None)

    def put_over(self, name: str, data: bytes, known: SmallObject | None) -> bool:
        """Write a record over the known one, None: where there is none; return False where there is another one."""
        key = self.key_of(name)
        with _as_store_error():
            if self.bucket.put_new(key, data) if known is None else self.bucket.swap(key, data, known.version):
                return True
        found = self.versioned(name)
        return found is not None and found.data == data  # an answer was lost, and the request was sent again

    def listing(self) -> Iterator[Entry]:
        with _as_store_error():
            yield from self.bucket.listing(self.location.key)

    def remove(self, keys: Sequence[str]) -> None:
        """Remove objects, in this order as far as that matters: a `done.json` ahead of what it names."""
        with _as_store_error():
            self.bucket.delete([key for key in keys if key.endswith(f"/{DONE}")])
            self.bucket.delete([key for key in keys if not key.endswith(f"/{DONE}")])

    def _known_done(self, name: str) -> SmallObject | None:
        if name not in self._there and (found := self.versioned(f"{name}/{DONE}")) is not None:
            self._there[name] = found
        return self._there.get(name)

    def _fetch_files(self, name: str, done: Done, files: Sequence[str], folder: Path) -> bool:
        """Fetch files of an attempt; return whether each is the one that was published."""
        place = self.key_of(f"{name}/{done.attempt}")
        with _as_store_error(), ThreadPoolExecutor(_AT_ONCE) as pool:
            listed = {entry.key: entry for entry in self.bucket.listing(place)}
            entries = {file: listed.get(f"{place}/{file}") for file in files}

            def get(file: str) -> bool:
                entry, target = entries[file], folder / file
                if entry is None or entry.size_bytes != done.files[file].size_bytes:
                    return False
                target.parent.mkdir(exist_ok=True)
                fetch(RemoteObject(entry, f"{self.location.base}{entry.key}", file, self.bucket.client), target)
                return _sha256_of(target) == done.files[file].sha256

            return all(pool.map(get, files))


def parse_done(data: bytes) -> Done | None:
    """Return what a `done.json` says; None where it is none that a store wrote."""
    try:
        facts = json.loads(data)
        files = {str(file): PublishedFile(**stated) for file, stated in facts["files"].items()}
        done = Done(facts["attempt"], files)
        is_whole = len(files) <= _MOST_FILES and ATTEMPT.fullmatch(done.attempt) is not None
        return done if is_whole and all(_is_file(file, files) for file in files) else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError):
        return None


def _is_file(file: str, files: dict[str, PublishedFile]) -> bool:
    """Return whether a file of `done.json` may be written: it lies in the folder, and not over another one."""
    stated = files[file]
    return (
        _FILE.fullmatch(file) is not None
        and file != SEAL_NAME
        and file.partition("/")[0] not in files.keys() - {file}
        and type(stated.size_bytes) is int
        and _SHA256.fullmatch(stated.sha256) is not None
    )


def _sha256_of(file: Path) -> str:
    with file.open("rb") as content:
        return hashlib.file_digest(content, "sha256").hexdigest()


@contextmanager
def _as_store_error() -> Iterator[None]:
    """Let what goes wrong in the bucket be no fault of a trace."""
    try:
        yield
    except StoreError:
        raise
    except TraceAnalyzerError as error:
        raise StoreError(error.what, error.where, error.hint) from error


# Whoever still writes an attempt has written some of it since.
OLD_AFTER_S = 86_400
# What a store writes below its folders: nothing else in the place is ever removed.
_PART = re.compile(
    rf"(?P<folder>traces/[\w.-]+|derived/[0-9a-f]{{16}}|ranks/(?P<derived>[0-9a-f]{{16}})/\w+)"
    rf"/(?:(?P<done>{re.escape(DONE)})|(?P<attempt>{ATTEMPT.pattern})/.+)",
    re.ASCII,
)


@dataclass(frozen=True)
class Swept:
    """What was removed."""

    object_count: int = 0
    size_bytes: int = 0


@dataclass
class _Folder:
    """A published folder, or what attempts at it left."""

    derived: str | None  # the run's attribution that a rank was computed for
    done: Entry | None = None
    attempts: dict[str, list[Entry]] = field(default_factory=lambda: defaultdict(list))

    def entries(self) -> list[Entry]:
        return [*([self.done] if self.done else []), *(entry for own in self.attempts.values() for entry in own)]


def sweep(shared: SharedStore) -> Swept:
    """Remove attempts of a day ago that do not count, and ranks whose run was attributed; return what that was."""
    shared.check()
    old_s = time.time() - OLD_AFTER_S
    folders = _folders(shared)
    removed: list[Entry] = []
    for name, folder in folders.items():
        entries = folder.entries()
        run = folders.get(f"derived/{folder.derived}")
        if run is not None and run.done is not None and all(_is_old(entry, old_s) for entry in entries):
            removed += entries
        else:
            removed += _needless(shared, name, folder, old_s)
    shared.remove([entry.key for entry in removed])
    return Swept(len(removed), sum(entry.size_bytes for entry in removed))


def _folders(shared: SharedStore) -> dict[str, _Folder]:
    folders: dict[str, _Folder] = {}
    below = shared.key_of("")
    for entry in shared.listing():
        match = _PART.fullmatch(entry.key.removeprefix(below))
        if match is None:
            continue
        folder = folders.setdefault(match["folder"], _Folder(match["derived"]))
        if match["done"]:
            folder.done = entry
        else:
            folder.attempts[match["attempt"]].append(entry)
    return folders


def _needless(shared: SharedStore, name: str, folder: _Folder, old_s: float) -> list[Entry]:
    """Return the objects of a folder's attempts that are old and do not count."""
    candidates = {
        attempt: entries
        for attempt, entries in folder.attempts.items()
        if all(_is_old(entry, old_s) for entry in entries)
    }
    if not candidates or (folder.done is not None and len(folder.attempts) == 1):
        return []
    found = shared.versioned(f"{name}/{DONE}")  # as it is now, and not when the store was listed
    done = None if found is None else parse_done(found.data)
    if found is not None and done is None:
        return []  # damaged: the next command that needs the folder replaces it
    return [
        entry for attempt, entries in candidates.items() if done is None or attempt != done.attempt for entry in entries
    ]


def _is_old(entry: Entry, old_s: float) -> bool:
    return 0 < entry.changed_s < old_s
