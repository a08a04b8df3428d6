"""Nsight Systems: SQLite exports of every schema version, Parquet exports, and reports where nsys is installed."""

from __future__ import annotations

import tempfile
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions
from traceanalyzer.ingest.nsys.export.unpacking import export_report, is_report
from traceanalyzer.ingest.unread_formats import SQLITE_HEAD, tables_of, unread_database

# Every export holds the strings its names refer to.
_STRINGS_TABLE = "StringIds"
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
        from traceanalyzer.ingest.nsys.export.unpacking import unpacked
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
    if _STRINGS_TABLE in names or any(name.startswith(_EXPORT_TABLES) for name in names):
        return True
    log = path.with_name(f"{path.name}-wal")
    return log.is_file() and _LOGGED_TABLE in log.read_bytes()
