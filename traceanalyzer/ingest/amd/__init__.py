"""AMD's recorders: the databases of rocprofv3 (rocpd) and of rocmProfileData (RPD)."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from traceanalyzer.ingest import IngestOptions

_SQLITE_HEAD = b"SQLite format 3\x00"
# The text by which tables of each recorder are made; it stands at the beginning of a database.
_TABLE = rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?"
_ROCPD = re.compile(_TABLE + rb"rocpd_metadata_?[0-9a-fA-F]{8}", re.IGNORECASE)
_RPD = re.compile(_TABLE + rb"rocpd_(?:op|api|api_ops)[\"'`\]]? ?\(", re.IGNORECASE)


class AmdIngester:
    """Reads what AMD's recorders write."""

    name = "amd"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file is of one of them, by its content."""
        return _container(head, path) is not None

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write every process of the file into a subfolder of `folder`; see Ingester."""
        from traceanalyzer.ingest.amd.defects import AmdDefects
        from traceanalyzer.ingest.amd.rocpd import rocpd_recordings
        from traceanalyzer.ingest.amd.rpd import rpd_recordings
        from traceanalyzer.ingest.amd.writing import write_recordings
        from traceanalyzer.ingest.nsys.export.unpacking import unpacked

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            defects = AmdDefects()
            database = unpacked(path, Path(scratch), defects)
            read = rpd_recordings if _container_of_database(database) == "rpd" else rocpd_recordings
            write_recordings(read(database, path, defects), path, path.name, folder, options)


def _container(head: bytes, path: Path) -> str | None:
    """Return what a file is: rocpd or rpd; None: neither."""
    if not head.startswith(_SQLITE_HEAD):
        return None
    if _ROCPD.search(head):
        return "rocpd"
    return "rpd" if _RPD.search(head) else _container_of_database(path)


def _container_of_database(path: Path) -> str | None:
    """Return which recorder's tables a database has; None: none that can be read."""
    from traceanalyzer.ingest.amd.rocpd_tables import is_rocpd

    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA writable_schema = ON")  # else a file that was cut is refused as a whole
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return None
    if is_rocpd(names):
        return "rocpd"
    return "rpd" if {"rocpd_op", "rocpd_api"} <= names else None
