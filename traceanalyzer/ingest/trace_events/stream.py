"""The bytes of a JSON trace, plain or gzip by content, and the text around its event list."""

from __future__ import annotations

import json
import re
import zlib
from pathlib import Path

from msgspec import Struct, field

from traceanalyzer.errors import TraceAnalyzerError
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
HEAD_BYTES = 2**20
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


# A header larger than this holds no event list a reader would find in time.
HEADER_LIMIT_BYTES = 64 * 2**20
# A longer value is kept by no profiler for people to read.
_LONGEST_VALUE = 8 * 2**20
# Python refuses to convert longer numbers to text and back.
_MOST_DIGITS = 4000
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[\s\0]*")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
# An object in a list whose first keys are none of an event.
_LISTED_TRACES = re.compile(
    rb'\[\s*\{\s*"(?:schemaVersion|deviceProperties|distributedInfo|displayTimeUnit|traceEvents)"\s*:'
)
_LINES_OF_EVENTS = re.compile(rb'\{[^\n]{0,65536}"ph"\s*:[^\n]{0,65536}\}\s*\n\s*\{')
_NEXT_KEY = re.compile(r',\s*(?="[^"\\]{1,80}"\s*:)')


class TraceDocument(Struct):
    """A trace file's shape: where its event list begins, and its other keys as JSON values."""

    events_start: int
    is_object: bool
    metadata: dict[str, object] = field(default_factory=dict)


def read_header(data: bytes, losses: Losses, *, at_end: bool) -> TraceDocument | None:
    """Find the event list in the first bytes of a document; None: more bytes are needed.

    Raises TraceAnalyzerError where the text can be no trace.
    """
    stripped = data.lstrip()
    skipped = len(data) - len(stripped)
    if not stripped:
        if at_end:
            raise TraceAnalyzerError(
                "the file is empty", hint="the profiler wrote nothing: look for a .tmp file beside it"
            )
        return None
    if stripped[:1] == b"[":
        if _LISTED_TRACES.match(stripped):
            what = "is a list of traces, of which each is a file"
            raise TraceAnalyzerError(what, hint="write each into a file of its own, as the profiler does: jq '.[0]'")
        return TraceDocument(skipped + 1, is_object=False)
    if stripped[:1] != b"{":
        raise TraceAnalyzerError(
            "is no trace: it begins neither with { nor with [", hint="expected PyTorch profiler or Chrome trace JSON"
        )
    key = _EVENTS_KEY.search(data)
    if key is None:
        if not at_end and len(data) < HEADER_LIMIT_BYTES:
            return None
        if _LINES_OF_EVENTS.match(stripped):
            raise TraceAnalyzerError("holds its events line by line", hint="make one list of them: jq -s . FILE")
        raise TraceAnalyzerError(
            "holds no traceEvents", hint="expected PyTorch profiler or Chrome trace JSON with an event list"
        )
    document = TraceDocument(key.end(), is_object=True)
    read_keys(data[skipped + 1 : key.start()].decode(errors="replace"), document.metadata, losses, skipped + 1)
    return document


class _LongNumbers:
    """Reads whole numbers, and keeps those that are too long to be read."""

    def __init__(self) -> None:
        self.met: list[str] = []

    def parse(self, digits: str) -> int | None:
        if len(digits) <= _MOST_DIGITS:
            return int(digits)
        self.met.append(digits)
        return None


def read_keys(text: str, metadata: dict[str, object], losses: Losses, offset: int) -> int:
    """Read `"key": value, …` into `metadata` up to the closing brace or the end; return where reading stopped."""
    position = 0
    numbers = _LongNumbers()
    decoder = json.JSONDecoder(strict=False, parse_int=numbers.parse)
    while True:
        position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
        if position >= len(text) or text[position] == "}":
            return position
        if text[position] == ",":
            position += 1
            continue
        began = position
        try:
            key, position = decoder.raw_decode(text, position)
            position = _SPACE.match(text, position).end()  # type: ignore[union-attr]
            if not isinstance(key, str) or text[position : position + 1] != ":":
                raise ValueError("no key")
            value, position = decoder.raw_decode(text, _SPACE.match(text, position + 1).end())  # type: ignore[union-attr]
            if position - began > _LONGEST_VALUE:
                losses.add("long-text", offset + began, text[began : began + 160])
                continue
            written = json.dumps([key, value], ensure_ascii=False) if "\\u" in text[began:position] else ""
            if LONE_SURROGATE.search(written):
                losses.add("lone-surrogate", offset + began, text[began:position])
                key, value = json.loads(LONE_SURROGATE.sub("\ufffd", written))
        except (ValueError, RecursionError):
            losses.add("bad-header", offset + position, text[position : position + 160])
            again = _NEXT_KEY.search(text, position + 1)
            if again is None:
                return len(text)
            position = again.end()
            continue
        if numbers.met:
            losses.add("bad-number", offset + position, f"{key}: {numbers.met[0]}", len(numbers.met))
            numbers.met.clear()
        if key == "traceEvents":
            count = len(value) if isinstance(value, list) else 0
            losses.add("second-event-list", offset + position, f"{count} events")
            continue
        if key in metadata:
            losses.add("duplicate-key", offset + position, key)
        metadata[key] = value


def read_trailer(data: bytes, document: TraceDocument, losses: Losses, offset: int, *, cut: bool) -> bool:
    """Read what follows the event list: for an object its remaining keys and brace, then nothing but blanks.

    Returns whether there is something else.
    """
    text = data.decode(errors="replace")
    position = 0
    if document.is_object:
        position = read_keys(text, document.metadata, losses, offset)
        if position >= len(text):
            if not cut:
                losses.add("truncated", offset + len(data), "the document's closing brace is missing")
            return False
        position += 1
    rest = text[position:].strip(" \t\r\n\0")
    if rest:
        kind = "second-document" if rest.startswith(("{", "[")) else "trailing-data"
        losses.add(kind, offset + len(text[:position].encode()), rest)
    return bool(rest)
