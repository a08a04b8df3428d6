"""A trace from standard input: kept in a file of the user's cache as long as its run is open."""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed import LIMITS
from traceanalyzer.store.owner import user_cache

STANDARD_INPUT = "-"
_FILE_NAME = "stdin"
_COPY_BYTES = 2**20
_WHERE, _HINT = "standard input", "pipe a trace into it, or name a file"


@contextmanager
def spooled() -> Iterator[Path]:
    """Give a file with what standard input holds, in a folder of its own that is removed at the end.

    Raises TraceAnalyzerError where there is nothing to read or nowhere to keep it.
    """
    if sys.stdin.isatty():
        raise TraceAnalyzerError("is a terminal", _WHERE, _HINT)
    with tempfile.TemporaryDirectory(prefix="stdin-", dir=user_cache()) as folder:
        file = Path(folder) / _FILE_NAME
        try:
            _copy(file)
        except OSError as error:
            hint = "make room there, or set XDG_CACHE_HOME to a folder on a larger disk"
            raise TraceAnalyzerError(f"standard input cannot be kept: {error.strerror}", folder, hint) from error
        if not file.stat().st_size:
            raise TraceAnalyzerError("is empty", _WHERE, _HINT)
        try:
            yield file
        except TraceAnalyzerError as error:
            if error.where == str(file):
                raise TraceAnalyzerError(error.what, _WHERE, error.hint) from error
            raise


def _copy(file: Path) -> None:
    size_bytes = 0
    with file.open("wb") as kept:
        while block := sys.stdin.buffer.read(_COPY_BYTES):
            size_bytes += kept.write(block)
            if size_bytes > LIMITS.total_bytes:
                hint = "write it to a file, and name the file"
                raise TraceAnalyzerError(f"is longer than {LIMITS.total_bytes:,} bytes", _WHERE, hint)
