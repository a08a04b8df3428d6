"""A run's store: Parquet folders named by content, written atomically, reused while input and engine stay the same.

    store/
      traceanalyzer-store.txt     the mark of the user who made it, in this place
      sources/<path hash>.json    what a file looked like when it was last read, and its content's hash
      traces/<name>-<key>/        one file's traces, each a folder of canonical tables, without those that have no rows
      derived/<key>/              attribution tables of one set of traces under one set of options
      ranks/<key>/<number>/       what other processes computed of it, one trace each; gone once derived/<key> is there
      answers/<key>.txt           what is quicker read than made again: diagnoses, ranks, what objects elsewhere are
      catalog.duckdb              every table and metric as documented views, for any DuckDB client
      catalog.txt                 which derived tables it shows (those asked for last), and what it looked like

A folder appears under its name only when it is complete; a command that is later finds it there and drops its own. Its
seal says what was in it: a folder that lacks a file, or has another one, is made again.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.store import writing
from traceanalyzer.store.inputs import (
    DERIVED_SOURCES,
    TRACE_SOURCES,
    CatalogFile,
    KeptAnswers,
    SourceRecord,
    check_unchanged,
    digest_of,
    engine_key,
    parse_record,
    place_of,
    stamp_of,
)
from traceanalyzer.store.owner import user_key

if TYPE_CHECKING:
    from traceanalyzer.remote.location import Location
    from traceanalyzer.remote.remote_object import RemoteObject
    from traceanalyzer.store.shared_store import SharedStore

_DERIVED_FROM = "traces.txt"
_DERIVED_NAME = re.compile(r"[0-9a-f]{16}")
# What the ranks of a run have in common: the first folder that is written for them.
MATCHED = "matched"
# How long a folder that another machine wrote may take to be seen here: file systems on a network remember names.
_PATIENCE_S = 60.0
_PAUSE_S = 0.1


class Store:
    """The stored traces of one folder, which `locate_store` has found to be the user's.

    A store that machines share, in a bucket, is a `WorkingCopy`, which overrides what the two do differently.
    """

    shared: SharedStore | None = None  # what the folder is a working copy of
    _may_hold_unknown = False  # whether it may hold tables of a file that it has not read

    def __init__(self, folder: Path) -> None:
        # Whole, because Arrow takes a path that begins with `name:` for a URL.
        self.folder = folder.absolute()
        self._key = self._name_key = user_key()
        self._writer = writing.StoreWriter(self.folder, self._key)
        self.answers = KeptAnswers(self._writer)
        self.catalog = CatalogFile(self._writer)

    @property
    def place(self) -> Path | Location:
        """What `open_store` opens it by, in this process and in others."""
        return self.folder

    def claim_shared(self) -> None:
        """See that the shared store, if there is one, can be used."""

    def trace_folder(self, source: Path | RemoteObject, ingest: Callable[[Path], None]) -> tuple[Path, bool]:
        """Return the folder with a file's tables and whether it was there already; `ingest` fills it if not."""
        remembered = self._read_source(source)
        # Remembered is what the file looked like before it was read: after a write meanwhile it looks otherwise.
        stamp = stamp_of(source)
        digest: str | None = None
        if remembered is not None or self._may_hold_unknown:
            is_known = remembered is not None and remembered.stamp == stamp
            digest = remembered.digest if remembered is not None and is_known else digest_of(source)
            check_unchanged(source, stamp)
            target = self._trace_target(source, digest)
            if self.is_whole(target):
                self._remember(source, stamp, digest, target)
                return target, True
        target = self._ingest_new(source, stamp, digest, ingest)
        if remembered is not None:
            self._forget(remembered.folder)
        return target, False

    def scratch(self) -> AbstractContextManager[Path]:
        """Give a new folder to write in, which is removed again."""
        return self._writer.scratch()

    def held_traces(self, source: Path | RemoteObject) -> Path | None:
        """Return the folder with a file's tables; None where the file has to be read, or hashed, to know it.

        With a shared store, the folder may still have to be fetched: `is_here` says so.
        """
        remembered = self._read_source(source)
        if remembered is None or remembered.stamp != stamp_of(source):
            digest = self._digest_at_hand(source)
        else:
            digest = remembered.digest
        target = None if digest is None else self._trace_target(source, digest)
        return target if target is not None and self.has(target) else None

    def _digest_at_hand(self, source: Path | RemoteObject) -> str | None:
        """Return what names the tables of a file that this store has not read, where that needs no hashing."""
        return None

    def written_elsewhere(self, name: str) -> Path:
        """Return a folder of traces that another process says it wrote; raises TraceAnalyzerError where none comes."""
        return self._seen(self.folder / "traces" / name)

    def keep_failure(self, source: Path | RemoteObject, stamp: list[int]) -> None:
        """Remember that a file cannot be read, for as long as it looks the same."""
        file, text = self._failure_file(source), json.dumps(stamp)
        writing.make_own_folder(file.parent)
        self._writer.replace_file(file, lambda fresh: fresh.write_text(text))
        self._share_record(file, text)

    def is_known_failure(self, source: Path | RemoteObject) -> bool:
        """Return whether a file could not be read, and looks the same since."""
        file = self._failure_file(source)
        text = writing.read_own_text(file) or self._shared_record(file)
        try:
            return bool(json.loads(text or "[]") == stamp_of(source))
        except (ValueError, RecursionError):
            return False

    def _failure_file(self, source: Path | RemoteObject) -> Path:
        return self.folder / "sources" / f"{self._hash(f'{engine_key(TRACE_SOURCES)} {place_of(source)}')}.failed.json"

    def _seen(self, target: Path) -> Path:
        until_s = time.monotonic() + _PATIENCE_S
        while not self.is_whole(target):
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
        with self._writer.scratch() as scratch:
            with ThreadPoolExecutor(1) as beside:
                hashing = beside.submit(digest_of, source) if digest is None else None
                ingest(scratch)
                found = digest or (hashing.result() if hashing else "")
            check_unchanged(source, stamp)
            target = self._trace_target(source, found)
            self._publish(scratch, target)
        self._remember(source, stamp, found, target, is_new=True)
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
            writing.remove(self.folder / "ranks" / target.name)
        return target

    def has(self, target: Path) -> bool:
        """Return whether the store holds a folder, here or where it is shared."""
        return self.is_here(target)

    def card_folder(self, target: Path) -> Path | None:
        """Return a folder with what tells traces apart, and not all their tables; None where it is damaged."""
        return target

    def is_here(self, target: Path) -> bool:
        """Return whether a folder lies on this machine and is what it was when it was written."""
        return writing.is_sealed(target, self._key)

    def is_whole(self, target: Path) -> bool:
        """Return whether a folder of the store is there and is what it was when it was written.

        With a shared store, it is here and there afterwards: fetched, or published, where it was not.
        """
        return self.is_here(target)

    def rank_folder(
        self, derived: str, name: str, traces: Sequence[Path], compute: Callable[[Path], None]
    ) -> tuple[Path, bool]:
        """Return a part of a set of traces' attribution and whether it was there; `compute` fills it if not.

        `derived` is the name of the folder that it will be put into. The part `MATCHED` comes first, and who else wants
        it waits for who is first, as far as the file system has locks.
        """
        folder = writing.make_own_folder(
            writing.make_own_folder(self.folder / "ranks") / derived
        )  # what is held has to be there
        target = folder / name
        with writing.held(folder) if name == MATCHED else nullcontext():
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
        with self._writer.scratch() as scratch:
            compute(scratch)
            (scratch / _DERIVED_FROM).write_text("\n".join(trace.parent.name for trace in traces))
            self._publish(scratch, target)

    def sweep(self) -> int:
        """Remove what killed commands left in the folder, and return how many entries that were."""
        count = self._writer.remove_abandoned()
        for ranks in self._entries("ranks"):
            if _DERIVED_NAME.fullmatch(ranks.name) and self.is_here(self.folder / "derived" / ranks.name):
                writing.remove(ranks)
                count += 1
        return count

    def _publish(self, scratch: Path, target: Path) -> None:
        """Move a written folder to its place; a folder that is there already stays."""
        self._writer.put_folder(scratch, target)

    def _trace_target(self, source: Path | RemoteObject, digest: str) -> Path:
        name = re.sub(r"[^\w.-]+", "_", source.name, flags=re.ASCII)[:80]
        # Copies of one file are traces of their own: ranks may lie in `rank0/trace.json` and `rank1/trace.json`.
        return (
            self.folder / "traces" / f"{name}-{self._hash(f'{engine_key(TRACE_SOURCES)} {digest} {place_of(source)}')}"
        )

    def _source_file(self, source: Path | RemoteObject) -> Path:
        return self.folder / "sources" / f"{self._hash(place_of(source))}.json"

    def _read_source(self, source: Path | RemoteObject) -> SourceRecord | None:
        file = self._source_file(source)
        record = parse_record(writing.read_own_text(file))
        if record is None and isinstance(source, Path):  # an object need not be hashed
            record = parse_record(self._shared_record(file))
        return record

    def _remember(
        self, source: Path | RemoteObject, stamp: list[int], digest: str, target: Path, *, is_new: bool = False
    ) -> None:
        facts = SourceRecord(place_of(source), stamp, digest, target.name)
        file = self._source_file(source)
        if parse_record(writing.read_own_text(file)) != facts:
            writing.make_own_folder(file.parent)
            self._writer.replace_file(file, lambda fresh: fresh.write_text(facts.text()))
        # Other machines know by it which tables are of a file, without hashing the file.
        if is_new or isinstance(source, Path):
            self._share_record(file, facts.text())

    def _share_record(self, file: Path, text: str) -> None:
        """Publish a record for other machines."""

    def _shared_record(self, file: Path) -> str | None:
        """Return a record that another machine published; None where there is none."""
        return None

    def _forget(self, name: str) -> None:
        """Remove the tables of what a file held before, and all derived from them, unless a file still holds it."""
        records = (parse_record(writing.read_own_text(file)) for file in self._entries("sources"))
        if any(record is not None and record.folder == name for record in records):
            return
        writing.remove(self.folder / "traces" / name)
        for made in (*self._entries("derived"), *self._entries("ranks")):
            inner = MATCHED if made.parent.name == "ranks" else "."
            origins = (
                writing.read_own_text(made / inner / _DERIVED_FROM) if _DERIVED_NAME.fullmatch(made.name) else None
            )
            if writing.is_own_folder(made) and name in (origins or "").splitlines():
                writing.remove(made)

    def _entries(self, part: str) -> list[Path]:
        folder = self.folder / part
        return list(folder.iterdir()) if writing.is_own_folder(folder) else []

    def _hash(self, text: str) -> str:
        """Return a name in the store. Without the user's key nobody can foresee it, and plant a folder under it."""
        return writing.keyed_hash(text.encode(errors="surrogateescape"), self._name_key)


def _relative(path: Path, root: Path) -> str:
    return path.relative_to(root).as_posix() if path.is_relative_to(root) else str(path)
