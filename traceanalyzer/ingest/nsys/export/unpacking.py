"""The database behind a file: unpacked where it is gzip, with the rows that SQLite keeps beside it."""

from __future__ import annotations

import shutil
import sqlite3
from contextlib import closing
from pathlib import Path

from traceanalyzer.ingest.nsys.defects import Defects
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.stream import GZIP_MAGIC, ByteStream

# SQLite puts rows into this file first, and moves them into the database later, or never where a program was killed.
LOG_SUFFIX = "-wal"
_JOURNAL_SUFFIX = "-journal"
_JOURNAL_MAGIC = b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7"
_BLOCK_BYTES = 2**20


def log_beside(path: Path) -> Path | None:
    """Return the write-ahead log of a database, if there is one that holds anything."""
    log = path.with_name(path.name + LOG_SUFFIX)
    return log if log.is_file() and log.stat().st_size > 0 else None


def unpacked(path: Path, folder: Path, defects: Defects) -> Path:
    """Return the database to read: the file itself, or a copy in `folder`; nothing beside the file is written.

    A rollback journal beside the file is never played back, because it may name other files to remove: it is counted.
    """
    if _begins_with(path, GZIP_MAGIC):
        return _inflated(path, folder / "export.sqlite", defects)
    if _begins_with(path.with_name(path.name + _JOURNAL_SUFFIX), _JOURNAL_MAGIC):
        defects.add("unfinished-write", example=path.name + _JOURNAL_SUFFIX)
    log = log_beside(path)
    return path if log is None else _with_log(path, log, folder / "export.sqlite", defects)


def _begins_with(path: Path, magic: bytes) -> bool:
    if not path.is_file():
        return False
    with path.open("rb") as file:
        return file.read(len(magic)) == magic


def _inflated(path: Path, target: Path, defects: Defects) -> Path:
    losses = Losses()
    packed = ByteStream(path, losses)
    try:
        with target.open("wb") as plain:
            while block := packed.read(_BLOCK_BYTES):
                plain.write(block)
    finally:
        packed.close()
    for loss in losses.rows():
        defects.add("unreadable-rows", example=f"{loss['defect']} at byte {loss['first_offset']}: {loss['example']}")
    return target


def _with_log(path: Path, log: Path, target: Path, defects: Defects) -> Path:
    shutil.copyfile(path, target)
    shutil.copyfile(log, target.with_name(target.name + LOG_SUFFIX))
    try:
        with closing(sqlite3.connect(target, isolation_level=None)) as connection:
            connection.execute("PRAGMA trusted_schema = OFF")
            connection.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchall()
    except sqlite3.DatabaseError as error:
        defects.add("unreadable-rows", example=f"{log.name}: {error}")
        shutil.copyfile(path, target)
    target.with_name(target.name + LOG_SUFFIX).unlink(missing_ok=True)
    return target
