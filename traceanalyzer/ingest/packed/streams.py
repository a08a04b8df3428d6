"""The plain bytes of compressed files, and how many of them are read at most."""

from __future__ import annotations

import bz2
import gzip
import lzma
import tarfile
import zipfile
import zlib
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, cast

from traceanalyzer.errors import TraceAnalyzerError

HEAD_BYTES = 2**20
COPY_BYTES = 2**20
GZIP = b"\x1f\x8b"
HINT = "unpack it yourself, look at what is in it, and give the folder"
BROKEN = (OSError, EOFError, lzma.LZMAError, zlib.error, tarfile.TarError, zipfile.BadZipFile)
_ZSTD, _XZ, _BZIP2 = b"\x28\xb5\x2f\xfd", b"\xfd7zXZ\x00", b"BZh"
COMPRESSED = (_ZSTD, _XZ, _BZIP2)
# xz asks for 65 MiB with its highest preset.
_XZ_MEMORY_BYTES = 256 * 2**20
TAIL_BYTES = 512


class Reader(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""

    def close(self) -> None:
        """End reading."""


@dataclass(frozen=True)
class UnpackLimits:
    """The most that one packed file may become."""

    total_bytes: int = 64 * 2**30
    # Of what is unpacked to the file's size. Traces reach 100; a small file does no harm.
    ratio: int = 500
    small_bytes: int = 256 * 2**20
    members: int = 10_000
    # The list of a zip file's members, and one header of a tar file: both are read whole.
    directory_bytes: int = 16 * 2**20
    header_bytes: int = 2**20


LIMITS = UnpackLimits()


def opened(path: Path) -> Reader:
    """Open a file for reading what is compressed in it, or the file itself where nothing is."""
    with path.open("rb") as file:
        head = file.read(8)
    if head.startswith(GZIP):
        return cast("Reader", gzip.open(path))
    if head.startswith(_BZIP2):
        return bz2.open(path)
    if head.startswith(_XZ):
        return _XzReader(path)
    if head.startswith(_ZSTD):
        import pyarrow as pa

        return cast("Reader", pa.input_stream(str(path), compression="zstd"))
    return path.open("rb")


def head_of(path: Path) -> bytes:
    """Return a compressed file's first plain bytes, as many as can be read."""
    head = bytearray()
    try:
        with closing(opened(path)) as stream:
            while len(head) < HEAD_BYTES and (block := stream.read(min(2**16, HEAD_BYTES - len(head)))):
                head += block
    except BROKEN:
        pass
    return bytes(head)


class _XzReader:
    """The plain bytes of an xz file, in memory that the file does not choose."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("rb")
        self._inflater = self._fresh()

    def read(self, size: int, /) -> bytes:
        while True:
            waiting = b""
            if self._inflater.eof:
                waiting = self._next_stream(self._inflater.unused_data)
                if not waiting:
                    return b""
                self._inflater = self._fresh()
            elif self._inflater.needs_input:
                waiting = self._file.read(COPY_BYTES)
                if not waiting:
                    raise EOFError("the compressed stream ends early")
            block = self._inflater.decompress(waiting, size)
            if block:
                return block

    def close(self) -> None:
        self._file.close()

    def _next_stream(self, waiting: bytes) -> bytes:
        """Return the beginning of the next stream of the file, after the zeros that may lie between; empty: none."""
        waiting = waiting.lstrip(b"\0")
        while not waiting and (block := self._file.read(COPY_BYTES)):
            waiting = block.lstrip(b"\0")
        return waiting

    @staticmethod
    def _fresh() -> lzma.LZMADecompressor:
        return lzma.LZMADecompressor(lzma.FORMAT_XZ, memlimit=_XZ_MEMORY_BYTES)


class UnpackBudget:
    """What may still be unpacked from a file."""

    def __init__(self, limits: UnpackLimits, path: Path) -> None:
        self._limits = limits
        self._path = path
        self._packed_bytes = max(1, path.stat().st_size)
        self._bytes = 0

    def take(self, count: int) -> None:
        """Count bytes that were unpacked; raise TraceAnalyzerError where they are too many."""
        self._bytes += count
        if self._bytes > self._limits.total_bytes:
            raise TraceAnalyzerError(f"unpacks to more than {self._limits.total_bytes:,} bytes", self._path, HINT)
        if self._bytes > max(self._limits.small_bytes, self._limits.ratio * self._packed_bytes):
            raise TraceAnalyzerError(
                f"unpacks to more than {self._limits.ratio} times its size, as no trace does", self._path, HINT
            )

    def counting(self, stream: Reader) -> CountedReader:
        return CountedReader(stream, self)


class CountedReader:
    """A stream of which all that is read counts; `tail` holds the last bytes that were."""

    def __init__(self, stream: Reader, budget: UnpackBudget) -> None:
        self._stream = stream
        self._budget = budget
        self.tail = b""

    def read(self, size: int = COPY_BYTES, /) -> bytes:
        """Return the next bytes, at most `size`; none at the end."""
        block = self._stream.read(size if size >= 0 else COPY_BYTES)
        self._budget.take(len(block))
        if block:
            self.tail = (self.tail + block[-TAIL_BYTES:])[-TAIL_BYTES:]
        return block

    def close(self) -> None:
        self._stream.close()


def read_member(stream: Reader, size: int, archive: Path) -> bytes:
    """Return the next bytes of a member; what is damaged in it is an error of the archive."""
    try:
        return stream.read(size)
    except BROKEN as error:
        raise damaged(archive, error) from error


def damaged(archive: Path, why: Exception | str) -> TraceAnalyzerError:
    """Return the error for an archive that cannot be read to its end."""
    return TraceAnalyzerError(f"the archive is damaged or ends early: {why}", archive, "copy it again")
