"""AMD's recorders: the rocprofv3 (rocpd databases, JSON, CSV) and rocmProfileData (RPD)."""

from __future__ import annotations

import re
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from traceanalyzer.ingest import IngestOptions

if TYPE_CHECKING:
    from traceanalyzer.ingest.amd.recording import ProcessRecording

_SQLITE_HEAD = b"SQLite format 3\x00"
# The text by which tables of each recorder are made; it stands at the beginning of a database.
_TABLE = rb"CREATE TABLE (?:IF NOT EXISTS )?[\"'`\[]?"
_ROCPD = re.compile(_TABLE + rb"rocpd_metadata_?[0-9a-fA-F]{8}", re.IGNORECASE)
_TOOL = re.compile(rb'(?:\xef\xbb\xbf)?\s*\{\s*"rocprofiler-sdk-tool"\s*:')
_RPD = re.compile(_TABLE + rb"(rocpd_(?:op|api))[\"'`\]]? ?\(", re.IGNORECASE)
_RPD_TABLES = {"rocpd_op", "rocpd_api"}


class AmdIngester:
    """Reads what AMD's recorders write."""

    name = "amd"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file is of one of them, by its content."""
        container = _container(head, path)
        # Of tables that belong together, one stands for all.
        if container != "csv":
            return container is not None
        from traceanalyzer.ingest.amd.csv_processes import leader_of

        return leader_of(path) == path

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write every process of the file into a subfolder of `folder`; see Ingester."""
        from traceanalyzer.ingest.amd.csv_tables import csv_recordings
        from traceanalyzer.ingest.amd.recording import AmdDefects
        from traceanalyzer.ingest.amd.rocpd import rocpd_recordings
        from traceanalyzer.ingest.amd.rpd import rpd_recordings
        from traceanalyzer.ingest.amd.sdk_json import json_recordings
        from traceanalyzer.ingest.amd.writing import write_recordings
        from traceanalyzer.ingest.nsys import unpacked
        from traceanalyzer.ingest.trace_events.stream import read_head

        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(dir=folder, prefix=".export-") as scratch:
            recordings: Iterator[ProcessRecording]
            container = _container(read_head(path), path)
            if container == "json":
                recordings = json_recordings(path, Path(scratch))
            elif container == "csv":
                recordings = csv_recordings(path)
            else:
                defects = AmdDefects()
                database = unpacked(path, Path(scratch), defects)
                read = rpd_recordings if _container_of_database(database) == "rpd" else rocpd_recordings
                recordings = read(database, path, defects)
            write_recordings(recordings, path, path.name, folder, options)


class OneTableIngester(AmdIngester):
    """Reads one CSV table of several that belong together, where it is given by itself."""

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file is a table of work, calls or counters."""
        if not path.is_file() or _container(head, path) != "csv":
            return False
        from traceanalyzer.ingest.amd.csv_processes import leader_of

        return leader_of(path) is not None


def _is_table(head: bytes) -> bool:
    from traceanalyzer.ingest.amd.csv_processes import table_kind

    return table_kind(head) is not None


def _container(head: bytes, path: Path) -> str | None:
    """Return what a file is: json, csv, rocpd or rpd; None: none of them."""
    if path.name.lower().endswith(".csv") and _is_table(head):
        return "csv"
    if _TOOL.match(head):
        return "json"
    if not head.startswith(_SQLITE_HEAD):
        return None
    if _ROCPD.search(head):
        return "rocpd"
    is_rpd = {name.decode().lower() for name in _RPD.findall(head)} == _RPD_TABLES
    return "rpd" if is_rpd else _container_of_database(path)


def _container_of_database(path: Path) -> str | None:
    """Return which recorder's tables a database has; None: none that can be read."""
    from traceanalyzer.ingest.amd.rocpd_rows import is_rocpd

    uri = f"file:{quote(str(path.absolute()))}?mode=ro&immutable=1"
    try:
        with closing(sqlite3.connect(uri, uri=True)) as connection:
            connection.execute("PRAGMA writable_schema = ON")  # else a file that was cut is refused as a whole
            names = {name for (name,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}
    except sqlite3.DatabaseError:
        return None
    if is_rocpd(names):
        return "rocpd"
    return "rpd" if _RPD_TABLES <= names else None
