"""From files to canonical tables: one ingester per format, chosen by content and never by suffix."""

from __future__ import annotations

from collections.abc import Callable
from io import BufferedReader
from pathlib import Path
from typing import Literal, Protocol

from msgspec import Struct, field

# In the folder of an archive's traces: which member each part of it was.
MEMBERS_NAME = "members.json"
# What to give where nothing could be read.
EXPECTED = (
    "expected JSON of PyTorch's profiler (.json, .json.gz), SQLite of Nsight Systems, a profile of XLA (.xplane.pb), "
    "or what a profiler of AMD wrote (.csv, .json, .db, .rpd)"
)


class Sized(Protocol):
    """The state of a file, of which its size is asked for."""

    @property
    def st_size(self) -> int:
        """Its bytes."""


class Source(Protocol):
    """What is read from its first byte to its last: a file here, or an object of a store. Its text is its place."""

    @property
    def name(self) -> str:
        """Its name, without folders."""

    def open(self, mode: Literal["rb"]) -> BufferedReader:
        """Return its bytes as a file."""

    def stat(self) -> Sized:
        """Return its state."""

    def is_file(self) -> bool:
        """Return whether it is a file of this machine."""


class Progress(Struct, frozen=True):
    """How much of a file has been read: compressed bytes of the total, and events."""

    path: Source
    read_bytes: int
    size_bytes: int
    event_count: int


def _ignore(progress: Progress) -> None:
    return None


class IngestOptions(Struct, frozen=True):
    """How many cores an ingester may use, and the function to which it reports its progress."""

    jobs: int = 1
    report: Callable[[Progress], None] = field(default=_ignore)


class Ingester(Protocol):
    """Reads one format into canonical tables."""

    name: str

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether this ingester reads a file, from its first bytes (decompressed if it is gzip)."""

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write every trace of the file into a subfolder of `folder`; see TraceSink.

        The subfolder of a file with one trace is `0`; a file with several processes or ranks gives one subfolder for
        each, such as `pid111` and `pid112`, or `rank0` and `rank1`. Raises TraceAnalyzerError if the file cannot be
        read at all.
        """
