"""The bytes of a JSON trace: plain or gzip by content, as much of them as can be read."""

from __future__ import annotations

import zlib

from traceanalyzer.ingest import Source
from traceanalyzer.ingest.trace_events.losses import Losses

GZIP_MAGIC = b"\x1f\x8b"
BYTE_ORDER_MARK = b"\xef\xbb\xbf"
CHUNK_BYTES = 16 * 2**20
# After so many chunks, they are twice as large: planning the queries of one takes as long as parsing 5 MB. Small files
# are not worth fewer and larger ones, which the threads share out less evenly.
SMALL_CHUNKS = 8
# Chunks in work beyond one a thread: while one waits for its turn to be numbered, its thread parses the next.
SPARE_PARSERS = 1
_GZIP_WINDOW = 31  # zlib's code for a gzip member with the largest window
# Compressed bytes taken at a time, and the most they are inflated to at once.
_PACKED_BYTES = 2**18
_INFLATED_BYTES = 2**20


class ByteStream:
    """Reads a file's decompressed bytes, without a byte-order mark."""

    def __init__(self, path: Source, losses: Losses) -> None:
        self.size_bytes = path.stat().st_size
        self.cut = False  # the compressed stream ended early
        self._losses = losses
        self._file = path.open("rb")
        head = self._file.read(len(BYTE_ORDER_MARK))
        self._file.seek(len(head) if head == BYTE_ORDER_MARK else 0)
        self._gzip = _Gzip() if head.startswith(GZIP_MAGIC) else None

    @property
    def read_bytes(self) -> int:
        """The number of bytes of the file that have been read."""
        return self._file.tell()

    def readinto(self, target: memoryview) -> int:
        """Fill `target` as far as the file reaches and return how many bytes it got; 0 at the end."""
        filled = 0
        while filled < len(target):
            count = self._read_some(target[filled:])
            if not count:
                break
            filled += count
        return filled

    def read(self, count: int) -> bytes:
        """Return the next bytes, fewer at the end."""
        target = bytearray(count)
        return bytes(memoryview(target)[: self.readinto(memoryview(target))])

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _read_some(self, target: memoryview) -> int:
        if self._gzip is None:
            return self._file.readinto(target)
        block = self._inflate(min(len(target), _INFLATED_BYTES))
        target[: len(block)] = block
        return len(block)

    def _inflate(self, most: int) -> bytes:
        """Return the next inflated bytes, empty at the end or where the stream is damaged."""
        state = self._gzip
        assert state is not None
        while not state.ended:
            state.waiting = state.waiting or self._file.read(_PACKED_BYTES)
            if state.between_members and not self._begin_member(state):
                break
            if not state.waiting and not state.held_back:
                self._end(state, "gzip-truncated", "the compressed stream ends early")
                break
            block = self._inflate_once(state, most)
            if not state.written and block:
                block = block.removeprefix(BYTE_ORDER_MARK)
            state.written += len(block)
            if block:
                return block
        return b""

    def _inflate_once(self, state: _Gzip, most: int) -> bytes:
        before = state.member.copy()
        try:
            block = state.member.decompress(state.waiting, most)
        except zlib.error as error:
            block = _inflate_up_to_damage(before, state.waiting)
            state.written += len(block)
            self._end(state, "gzip-damaged", str(error))
            state.written -= len(block)
            return block
        state.held_back = len(block) == most
        state.waiting = state.member.unconsumed_tail
        if state.member.eof:
            state.waiting, state.between_members, state.held_back = state.member.unused_data, True, False
        return block

    def _begin_member(self, state: _Gzip) -> bool:
        """Begin the next gzip member, after any padding with NULs; return whether there is one."""
        state.waiting = state.waiting.lstrip(b"\0")
        while len(state.waiting) < len(GZIP_MAGIC) and (more := self._file.read(_PACKED_BYTES)):
            state.waiting = (state.waiting + more).lstrip(b"\0")
        if not state.waiting:
            state.ended = True
        elif not state.waiting.startswith(GZIP_MAGIC):
            self._losses.add("gzip-trailing-data", state.written, f"{len(state.waiting)} bytes and more")
            state.ended = True
        else:
            state.member, state.between_members = zlib.decompressobj(_GZIP_WINDOW), False
        return not state.ended

    def _end(self, state: _Gzip, defect: str, example: str) -> None:
        self.cut = state.ended = True
        self._losses.add(defect, state.written, example)


class _Gzip:
    """The progress of inflating a file."""

    def __init__(self) -> None:
        self.member = zlib.decompressobj(_GZIP_WINDOW)
        self.waiting = b""  # compressed bytes read and not yet inflated
        self.held_back = False  # the inflater may have more without new input
        self.between_members = False
        self.ended = False
        self.written = 0


def inflated_up_to_damage(raw: bytes, most: int) -> bytes:
    """Return at most so many of the first inflated bytes of a gzip stream that may be cut or damaged."""
    try:
        return zlib.decompressobj(_GZIP_WINDOW).decompress(raw, most)
    except zlib.error:
        return _inflate_up_to_damage(zlib.decompressobj(_GZIP_WINDOW), raw)[:most]


def _inflate_up_to_damage(member: zlib._Decompress, raw: bytes) -> bytes:
    """Inflate byte by byte: an inflater that fails keeps back what it had made of the bytes before."""
    blocks = []
    for position in range(len(raw)):
        try:
            blocks.append(member.decompress(raw[position : position + 1]))
        except zlib.error:
            break
    return b"".join(blocks)
