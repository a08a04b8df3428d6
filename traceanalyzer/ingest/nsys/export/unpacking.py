"""The database behind a file: unpacked where it is gzip, with the rows that SQLite keeps beside it.

Nsight Systems reports: their format is closed, so nsys itself turns them into an export, where it is installed.
"""

from __future__ import annotations

import shlex
import shutil
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.process import run_program

if TYPE_CHECKING:
    from traceanalyzer.ingest.nsys.defects import Defects

SUFFIXES = (".nsys-rep", ".qdrep", ".qdstrm")


def is_report(path: Path) -> bool:
    """Return whether a file is a report, by its suffix, since its content is undocumented."""
    return path.suffix in SUFFIXES


def export_report(report: Path, folder: Path) -> Path:
    """Export a report to SQLite in `folder` and return the file; raises TraceAnalyzerError where nsys cannot."""
    command = f"nsys export --type sqlite --include-blobs true {shlex.quote(report.name)}"
    nsys = shutil.which("nsys")
    if nsys is None:
        raise TraceAnalyzerError(
            "is an Nsight Systems report, which only nsys can read, and nsys is not on the PATH",
            report,
            f"where nsys is installed, run: {command}",
        )
    target = folder / f"{report.stem}.sqlite"
    # Older versions know no blobs: tried with them first, then without.
    for blobs in (["--include-blobs", "true"], []):
        arguments = [nsys, "export", "--type", "sqlite", "--force-overwrite", "true", *blobs, "--output", str(target)]
        done = run_program([*arguments, str(report.absolute())])
        if done.returncode == 0 and target.exists():
            return target
    said = (done.stderr or done.stdout).strip().splitlines()
    raise TraceAnalyzerError(
        f"nsys export failed: {said[-1] if said else f'exit code {done.returncode}'}",
        report,
        f"export it with the nsys version that recorded it: {command}",
    )


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
    from traceanalyzer.ingest.trace_events.stream import GZIP_MAGIC

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
    from traceanalyzer.ingest.trace_events.losses import Losses
    from traceanalyzer.ingest.trace_events.stream import ByteStream

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
