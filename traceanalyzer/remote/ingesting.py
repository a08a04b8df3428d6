"""An object of a store as canonical tables: JSON as it comes over the line, other formats from a copy on the disk."""

from __future__ import annotations

import shutil
import tempfile
from dataclasses import replace
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import Ingester, IngestOptions
from traceanalyzer.ingest.packed.names import safe_name
from traceanalyzer.ingest.trace_events import TraceEventIngester
from traceanalyzer.remote.remote_object import RemoteObject, fetch


def ingest_object(ingester: Ingester, source: RemoteObject, folder: Path, options: IngestOptions) -> None:
    """Write every trace of an object into a subfolder of `folder`; see Ingester.

    What needs its file more than once is copied to the disk of the store, and the copy is removed at the end.
    """
    if isinstance(ingester, TraceEventIngester):
        ingester.ingest(source, folder, options)
        return
    needed = source.entry.size_bytes + (0 if source.log is None else source.log.entry.size_bytes)
    free = shutil.disk_usage(folder).free
    if needed > free:
        hint = "make room there, or give --store DIR on a disk with more"
        what = f"is copied before it is read, and has {needed:,} bytes where {free:,} are free"
        raise TraceAnalyzerError(what, source.url, hint)
    with tempfile.TemporaryDirectory(prefix=".fetched-", dir=folder) as scratch:
        file = Path(scratch) / safe_name(source.name)
        fetch(source, file)
        if source.log is not None:
            fetch(source.log, file.with_name(f"{file.name}-wal"))
        report = options.report
        own = replace(options, report=lambda progress: report(replace(progress, path=source)))
        try:
            ingester.ingest(file, folder, own)
        except TraceAnalyzerError as error:
            if error.where == str(file):
                raise TraceAnalyzerError(error.what, source.url, error.hint) from error
            raise
