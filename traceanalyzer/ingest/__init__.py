"""From files to canonical tables: one ingester a format, chosen by content and never by suffix."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True)
class Progress:
    """How far the reading of a file is: compressed bytes read of all, events so far."""

    path: Path
    read_bytes: int
    size_bytes: int
    event_count: int


def _ignore(progress: Progress) -> None:
    return None


@dataclass(frozen=True)
class IngestOptions:
    """What an ingester is told: how many cores it may use, and whom to tell how far it is."""

    jobs: int = 1
    report: Callable[[Progress], None] = field(default=_ignore)


class Ingester(Protocol):
    """Reads one format into canonical tables."""

    name: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Tell from a file's first bytes (decompressed if it is gzip) whether this ingester reads it."""

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> list[str]:
        """Write every trace of the file into a subfolder of `folder` (see TraceSink) and return the subfolders' names.

        A file that holds one trace gives `['0']`; one with several processes gives one name each, such as
        `['pid111', 'pid112']`. Raises TraceAnalyzerError where nothing can be read at all.
        """
