"""Nsight Systems: SQLite exports of every schema version, Parquet exports, and reports where nsys is installed.

The format of reports is closed, so nsys itself turns them into an export. The database behind a file is unpacked where
it is gzip, and has the rows that SQLite keeps beside it.
"""

from __future__ import annotations

import shlex
import shutil
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.unread_formats import SQLITE_HEAD, tables_of, unread_database
from traceanalyzer.process import run_program

if TYPE_CHECKING:
    from traceanalyzer.ingest.nsys.defects import Defects

# Every export holds the strings its names refer to.
_STRINGS_TABLE = "StringIds"
# nvprof calls tables alike, whose columns mean other things.
_NVPROF_STRINGS = "StringTable"
_EXPORT_TABLES = ("CUPTI_ACTIVITY_KIND_", "NVTX_EVENTS")
# The text by which the table of strings is made, where it stands only in the database's write-ahead log.
_LOGGED_TABLE = _STRINGS_TABLE.encode()


class NsysIngester:
    """Reads what Nsight Systems exports.

    A folder of Parquet files (`nsys export --type parquetdir`) is given as the folder itself. A report is passed over
    where an export of it lies beside it, and so is a folder of Parquet files beside an SQLite export: both hold the
    same.
    """

    name = "nsys"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether this is an export or a report."""
        if path.is_dir():
            return _parquet_strings(path).exists() and not _sqlite_beside(path).exists()
        if is_report(path):
            return not _exported(path)
        return head.startswith(SQLITE_HEAD) and _is_export(path, head)

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write every trace of the export into a subfolder of `folder`; see Ingester."""
        # Only where there is an export to read: what reads it takes a tenth of a second to import.
        from traceanalyzer.ingest.nsys.defects import Defects
        from traceanalyzer.ingest.nsys.ingester import ingest_export

        if path.is_dir():
            ingest_export(path, path.name, folder, options)
            return
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            defects = Defects()
            export = export_report(path, Path(scratch)) if is_report(path) else unpacked(path, Path(scratch), defects)
            _refuse_others(export, path)
            ingest_export(export, path.name, folder, options, path, defects)


def _parquet_strings(folder: Path) -> Path:
    return folder / f"{_STRINGS_TABLE}.parquet"


def _sqlite_beside(folder: Path) -> Path:
    """Return where nsys puts the SQLite export of the report whose Parquet export is this folder."""
    return folder.with_name(folder.name.removesuffix("_pqtdir") + ".sqlite")


def _exported(report: Path) -> bool:
    """Return whether an export lies beside its report, under the name that nsys gives it."""
    return (
        report.with_suffix(".sqlite").exists() or _parquet_strings(report.with_name(f"{report.stem}_pqtdir")).exists()
    )


def _refuse_others(export: Path, path: Path) -> None:
    """Raise TraceAnalyzerError for what turns out to be no export once it is unpacked."""
    if _is_export(export, SQLITE_HEAD):
        return
    what, hint = unread_database(export, SQLITE_HEAD) or ("no export of nsys", "export the report with nsys")
    raise TraceAnalyzerError(f"is {what}, and no trace that traceanalyzer reads", path, hint)


def _is_export(path: Path, head: bytes) -> bool:
    """Return whether a database is an export; one that cannot be read this far counts as one until it is read."""
    names = tables_of(path, head)
    if names is None:
        return True
    if _STRINGS_TABLE in names:
        return True
    if any(name.startswith(_EXPORT_TABLES) for name in names):
        return _NVPROF_STRINGS not in names
    log = path.with_name(f"{path.name}-wal")
    return log.is_file() and _LOGGED_TABLE in log.read_bytes()


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
