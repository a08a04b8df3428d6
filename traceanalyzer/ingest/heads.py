"""The first bytes of a file, by which its format is known."""

from __future__ import annotations

from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.trace_events.stream import GZIP_MAGIC, inflated_up_to_damage

HEAD_BYTES = 2**20


def read_head(path: Path, most: int = HEAD_BYTES) -> bytes:
    """Return at most so many of a file's first bytes, decompressed where it is gzip."""
    try:
        with path.open("rb") as file:
            head = file.read(most)
    except OSError as error:
        raise TraceAnalyzerError(f"cannot be read: {error.strerror}", path, "check the file's permissions") from error
    if not head.startswith(GZIP_MAGIC):
        return head
    return inflated_up_to_damage(head, most)
