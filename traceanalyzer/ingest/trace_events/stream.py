"""The bytes of a JSON trace: plain or gzip by content, as much of them as can be read."""

from __future__ import annotations

import threading
import zlib
from collections.abc import Iterator
from pathlib import Path
from queue import Queue
from typing import BinaryIO

from traceanalyzer.ingest.trace_events.losses import Losses

BLOCK_BYTES = 16 * 2**20
# Compressed bytes taken at a time: they become about ten times as many.
_PACKED_BYTES = 2**18
GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
_GZIP_WINDOW = 31  # zlib's code for a gzip member with the largest window


class ByteStream:
    """Reads a file's decompressed bytes in blocks, a few blocks ahead of its reader, on a thread of its own."""

    def __init__(self, path: Path, losses: Losses) -> None:
        self.size_bytes = path.stat().st_size
        self.read_bytes = 0
        self.cut = False
        self._path = path
        self._losses = losses
        self._stopped = False
        self._queue: Queue[bytes | BaseException] = Queue(maxsize=2)
        self._thread = threading.Thread(target=self._fill, daemon=True)
        self._thread.start()

    def read(self) -> bytes:
        """Return the next block, empty at the end."""
        block = self._queue.get()
        if isinstance(block, BaseException):
            self._queue.put(block)
            raise block
        if not block:
            self._queue.put(b"")
        return block

    def close(self) -> None:
        """Stop reading."""
        self._stopped = True
        while self._thread.is_alive():
            if not self._queue.empty():
                self._queue.get()
            self._thread.join(0.01)

    def _fill(self) -> None:
        try:
            for block in self._blocks():
                if self._stopped:
                    return
                if block:
                    self._queue.put(block)
            self._queue.put(b"")
        except Exception as error:  # handed to the reader, which knows whom to tell
            self._queue.put(error)

    def _blocks(self) -> Iterator[bytes]:
        with self._path.open("rb") as file:
            raw = file.read(_PACKED_BYTES)
            if raw.startswith(GZIP_MAGIC):
                yield from self._inflate(raw, file)
                return
            raw = raw.removeprefix(BYTE_ORDER_MARK)
            while raw:
                self.read_bytes = file.tell()
                yield raw
                raw = file.read(BLOCK_BYTES)

    def _inflate(self, raw: bytes, file: BinaryIO) -> Iterator[bytes]:
        member = zlib.decompressobj(_GZIP_WINDOW)
        written = 0
        first = True
        while True:
            before = member.copy()
            try:
                block = member.decompress(raw, BLOCK_BYTES)
            except zlib.error as error:
                block = _inflate_up_to_damage(before, raw)
                self.cut = True
                self._losses.add("gzip-damaged", written + len(block), str(error))
                yield block
                return
            if first and block:
                block, first = block.removeprefix(BYTE_ORDER_MARK), False
            written += len(block)
            yield block
            raw = member.unconsumed_tail
            if member.eof:
                raw = member.unused_data or self._more(file)
                if not raw.strip(b"\0"):
                    return
                if not raw.startswith(GZIP_MAGIC):
                    self._losses.add("gzip-trailing-data", written, f"{len(raw)} bytes and more")
                    return
                member = zlib.decompressobj(_GZIP_WINDOW)
            elif not raw and not block:
                raw = self._more(file)
                if not raw:
                    self.cut = True
                    self._losses.add("gzip-truncated", written, "the compressed stream ends early")
                    return
            elif not raw:
                raw = self._more(file) or b""

    def _more(self, file: BinaryIO) -> bytes:
        raw = file.read(_PACKED_BYTES)
        self.read_bytes = file.tell()
        return raw


def _inflate_up_to_damage(member: zlib._Decompress, raw: bytes) -> bytes:
    """Inflate byte by byte: an inflater that fails keeps back what it had made of the bytes before."""
    blocks = []
    for position in range(len(raw)):
        try:
            blocks.append(member.decompress(raw[position : position + 1]))
        except zlib.error:
            break
    return b"".join(blocks)
