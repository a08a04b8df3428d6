"""AMD's recorders: the databases of rocprofv3 (rocpd)."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from contextlib import closing
from pathlib import Path
from urllib.parse import quote

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions

_SQLITE_HEAD = b"SQLite format 3\x00"
# The text by which tables of each recorder are made; it stands at the beginning of a database.
_TABLE = rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?"
_ROCPD = re.compile(_TABLE + rb"rocpd_metadata_?[0-9a-fA-F]{8}", re.IGNORECASE)


class AmdIngester:
    """Reads what AMD's recorders write."""

    name = "amd"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file is of one of them, by its content."""
        return head.startswith(_SQLITE_HEAD) and (_ROCPD.search(head) is not None or _is_rocpd(path))

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write every process of the file into a subfolder of `folder`; see Ingester."""
        from traceanalyzer.ingest.amd.defects import AmdDefects
        from traceanalyzer.ingest.amd.rocpd import rocpd_recordings
        from traceanalyzer.ingest.amd.writing import write_recordings
        from traceanalyzer.ingest.nsys.export.unpacking import unpacked

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            defects = AmdDefects()
            database = unpacked(path, Path(scratch), defects)
            write_recordings(rocpd_recordings(database, path, defects), path, path.name, folder, options)


def _is_rocpd(path: Path) -> bool:
    """Return whether a database has the tables of a process anywhere."""
    from traceanalyzer.ingest.amd.rocpd_tables import is_rocpd

    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except (sqlite3.DatabaseError, TraceAnalyzerError):
        return False
    return is_rocpd(names)
