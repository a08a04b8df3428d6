"""From a file's bytes to Parquet parts: chunks parsed in parallel, accepted in order."""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
from msgspec import Struct
from msgspec.structs import replace

from traceanalyzer.ingest import IngestOptions, Progress, Source
from traceanalyzer.ingest.native import NativeScanner, reader_in_use
from traceanalyzer.ingest.trace_events.chunks import Chunk, ChunkFacts, ChunkParser
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.repair import SEPARATOR, end_of_list, next_event
from traceanalyzer.ingest.trace_events.stream import (
    CHUNK_BYTES,
    HEADER_LIMIT_BYTES,
    SMALL_CHUNKS,
    SPARE_PARSERS,
    ByteStream,
    TraceDocument,
    read_header,
    read_trailer,
)

# An event with more text than this is damage.
LOOKAHEAD_BYTES = 32 * 2**20
_TAIL_BYTES = 64 * 2**10
_GROWTH_BYTES = 2**20
_TIME_SAMPLE_BYTES = 256 * 2**10
# Times since 1970, as that profiler wrote them.
_LONG_FRACTION = re.compile(rb'"ts"\s*:\s*"?-?\d{16,}\.(\d+)')
# A double near 1.7e15 µs holds quarters, which most programs write with one digit; a tool that wrote the file again
# leaves no other fraction.
_DOUBLE_FRACTIONS = frozenset({b"0", b"2", b"25", b"5", b"75", b"8"})
# With padded nanoseconds one fraction in ten begins with 0: this many without one are no accident.
_ENOUGH_FRACTIONS = 100
_DECODER = json.JSONDecoder()
_COMMA = re.compile(r"\s*,\s*")
# The rows of `categories`, alike in all databases: asking for them takes as long as reading a few hundred events.
_KNOWN_CATEGORIES: list[tuple[str, str, str]] = []
_CLOSED = re.compile(rb"\s*\]")
# Proton of Triton 3.4 and 3.5 writes a document for each stream, one a line.
_BETWEEN_STREAMS = re.compile(rb'\}\r?\n\{"displayTimeUnit":"us","traceEvents":\[')
_MOST_BETWEEN_BYTES = 64


class Parts(Struct):
    """The result of reading a file, besides the Parquet parts."""

    document: TraceDocument
    event_count: int = 0
    has_stacks: bool = False
    truncated: bool = False
    rank: int | None = None  # where several ranks were merged into the file


class EventReader:
    """Reads one trace file into Parquet parts of its events, in memory that does not depend on the file's size.

    Of a small file, the parts that need no repair may be `kept` in memory.
    """

    def __init__(
        self,
        path: Source,
        database: duckdb.DuckDBPyConnection,
        stage: Path,
        args_path: Path,
        options: IngestOptions,
        losses: Losses,
        chunk_bytes: int = CHUNK_BYTES,
        kept: dict[str, list[pa.Table]] | None = None,
    ) -> None:
        self._kept = kept
        self._path = path
        self._stage = stage
        self._args_path = args_path
        self._options = options
        self._losses = losses
        self._small_chunk_bytes = self._chunk_bytes = chunk_bytes
        self._stream = ByteStream(path, losses)
        self._parts = Parts(TraceDocument(0, is_object=False))
        self._buffer = b""  # read and not yet cut into chunks; begins with the comma before its first event
        self._blocks: list[memoryview] = []  # memory of chunks that are done with
        self._offset = 0  # of the buffer, in the decompressed file
        self._at_end = False
        self._list_ended = False
        self._database = database
        self._idle: deque[ChunkParser] = deque()
        self._writing: deque[tuple[ChunkParser, Chunk, Future[None]]] = deque()
        self._pool = ThreadPoolExecutor(max(1, options.jobs))

    def read(self) -> Parts:
        """Read the whole file. Raises TraceAnalyzerError where it can be no trace."""
        try:
            parts = self._parts = Parts(self._read_header())
            unpadded = self._sample_times()
            categories = self._categories() if reader_in_use() == "native" and not unpadded else None
            for number in range(max(1, self._options.jobs) + SPARE_PARSERS):
                cursor, scratch = self._database.cursor(), self._stage / f"chunk-{number}.json"
                scanner = None if categories is None else NativeScanner(categories)
                self._idle.append(
                    ChunkParser(
                        cursor, scanner, scratch, self._losses, self._offset, unpadded=unpadded, kept=self._kept
                    )
                )
            while True:
                self._read_chunks(parts)
                if not self._list_ended:
                    self._read_last(parts)
                if not self._goes_on():
                    break
            while self._writing:
                self._await_parser()
            self._read_trailer(parts.document)
            parts.truncated = self._stream.cut or "truncated" in self._losses
            return parts
        finally:
            self._stream.close()
            self._pool.shutdown()
            for parser in self._idle:
                parser.close()
            self._blocks.clear()  # what comes after needs the memory
            self._buffer = b""

    def _more(self, wanted_bytes: int = 1) -> bool:
        """Read on until so many more bytes are in the buffer; False at the end of the file."""
        # As much again: text that is looked at anew with each read is looked at a few times in all.
        more = self._stream.read(max(wanted_bytes, _GROWTH_BYTES, len(self._buffer)))
        self._buffer += more
        self._at_end = not more
        self._report()
        return not self._at_end

    def _report(self) -> None:
        self._options.report(
            Progress(self._path, self._stream.read_bytes, self._stream.size_bytes, self._parts.event_count)
        )

    def _drop(self, count: int) -> None:
        self._buffer = self._buffer[count:]
        self._offset += count

    def _put_back(self, data: bytes | memoryview) -> None:
        self._buffer = bytes(data) + self._buffer
        self._offset -= len(data)

    def _read_header(self) -> TraceDocument:
        while True:
            document = read_header(self._buffer, self._losses, at_end=self._at_end)
            if document is not None:
                self._drop(document.events_start)
                return document
            self._more()

    def _sample_times(self) -> bool:
        """Find out from the first times whether a profiler of spring 2024 wrote fractions without leading zeros."""
        self._more(_TIME_SAMPLE_BYTES - len(self._buffer))
        fractions = _LONG_FRACTION.findall(self._buffer[:_TIME_SAMPLE_BYTES])
        short = [f for f in fractions if len(f) < 3 and f not in _DOUBLE_FRACTIONS]
        padded = any(len(f) == 3 and f.startswith(b"0") for f in fractions)
        if not short or padded:
            return False
        sure = len(fractions) >= _ENOUGH_FRACTIONS
        self._losses.add("unpadded-fraction" if sure else "doubtful-fraction", None, short[0].decode())
        return sure

    def _categories(self) -> Sequence[tuple[str, str, str]]:
        if not _KNOWN_CATEGORIES:
            _KNOWN_CATEGORIES[:] = self._database.execute("SELECT raw, class, category FROM categories").fetchall()
        return _KNOWN_CATEGORIES

    def _next_chunk(self) -> Chunk | None:
        """Cut the next chunk of whole events, as far as its text shows; None where only the last events are left."""
        if self._offset >= SMALL_CHUNKS * self._small_chunk_bytes:
            self._chunk_bytes = 2 * self._small_chunk_bytes
        if len(self._buffer) < self._chunk_bytes and not self._at_end:
            # Not a bytearray, which writes zeros first: a small file fills little of it.
            block = self._blocks.pop() if self._blocks else np.empty(2 * self._small_chunk_bytes, np.uint8).data
            room = block[: self._chunk_bytes]
            room[: len(self._buffer)] = self._buffer
            filled = len(self._buffer) + self._stream.readinto(room[len(self._buffer) :])
            self._at_end = filled < len(room)
            text = room[:filled]
            end = _end_of_an_event(text)
            if end is not None:
                end += _last_event_bytes(text[end:]) if self._at_end else 0
                chunk = Chunk(text[:end], self._offset, block)
                self._buffer = bytes(text[end:])
                self._offset += end
                return chunk
            self._buffer = bytes(text)
            self._blocks.append(block)
        while True:
            end = _end_of_an_event(self._buffer)
            if end is not None:
                end += _last_event_bytes(self._buffer[end:]) if self._at_end else 0
                chunk = Chunk(self._buffer[:end], self._offset)
                self._drop(end)
                return chunk
            if len(self._buffer) >= LOOKAHEAD_BYTES:
                chunk = Chunk(self._buffer, self._offset)
                self._drop(len(self._buffer))
                return chunk
            if not self._more():
                return None

    def _read_chunks(self, parts: Parts) -> None:
        parsing: deque[tuple[Chunk, ChunkParser, Future[ChunkFacts | None]]] = deque()
        more = True
        while more or parsing:
            while more and (self._idle or self._writing):
                if not self._idle:
                    self._await_parser()
                chunk = self._next_chunk()
                more = chunk is not None
                if chunk is not None:
                    parser = self._idle.popleft()
                    job = self._pool.submit(parser.parse, chunk)
                    parsing.append((chunk, parser, job))
            if not parsing:
                return
            chunk, parser, job = parsing.popleft()
            facts = job.result()
            if facts is None:
                # The chunks after a damaged one may begin inside its last event: they are cut again.
                while parsing:
                    later, later_parser, later_job = parsing.pop()
                    later_job.result()
                    self._put_back(later.data)
                    self._reuse(later)
                    self._idle.append(later_parser)
                facts = self._read_damaged(chunk, parser)
                more = not self._list_ended
            self._accept(chunk, parser, facts, parts)

    def _await_parser(self) -> None:
        parser, chunk, job = self._writing.popleft()
        job.result()
        self._reuse(chunk)
        self._idle.append(parser)

    def _reuse(self, chunk: Chunk) -> None:
        """Keep a chunk's memory for another one: fresh pages cost as much as parsing what is read into them."""
        if chunk.block is not None:
            self._blocks.append(chunk.block)

    def _accept(self, chunk: Chunk, parser: ChunkParser, facts: ChunkFacts, parts: Parts) -> None:
        """Number the chunk's events and have them written."""
        if parser.is_scanned:  # the scanner has copies: the next chunk may be read into this one's memory
            self._reuse(chunk)
            chunk = replace(chunk, block=None)
        job = self._pool.submit(parser.write, chunk, facts, parts.event_count, self._stage, self._args_path)
        self._writing.append((parser, chunk, job))
        parts.event_count += facts.event_count
        parts.has_stacks |= facts.has_stacks
        self._report()

    def _read_damaged(self, chunk: Chunk, parser: ChunkParser) -> ChunkFacts:
        """Read a chunk that is no valid JSON, and of what follows it as much as its last event needs."""
        while True:
            losses = Losses()
            facts = parser.parse_damaged(chunk, self._buffer, losses, at_end=self._at_end)
            endless = len(self._buffer) >= LOOKAHEAD_BYTES
            if not facts.starved or endless:
                break
            self._more()
        self._losses.merge(losses)
        self._put_back(chunk.data[facts.end - chunk.offset :])
        self._drop(facts.end - self._offset)
        self._list_ended = facts.ended
        if facts.starved:
            self._skip_event()
        return facts

    def _skip_event(self) -> None:
        """Leave out an event that goes on for longer than any, in memory that does not depend on its length."""
        start = self._buffer[:160].decode(errors="replace")
        self._losses.add("unreadable-event", self._offset, start)
        position = 1
        while (found := next_event(self._buffer, position)) is None:
            position = 0
            if len(self._buffer) > 2 * _TAIL_BYTES:
                self._drop(len(self._buffer) - _TAIL_BYTES)
            if not self._more(_GROWTH_BYTES):
                end = end_of_list(self._buffer)
                found = len(self._buffer) if end is None else end
                break
        self._drop(found)

    def _read_last(self, parts: Parts) -> None:
        """Read the last events, up to the end of the list."""
        if parts.event_count and (closed := _CLOSED.match(self._buffer)):
            self._drop(closed.end())
            self._list_ended = True
            return
        while not self._idle:
            self._await_parser()
        chunk = Chunk(self._buffer, self._offset)
        self._drop(len(chunk.data))
        parser = self._idle.popleft()
        self._accept(chunk, parser, self._read_damaged(chunk, parser), parts)

    def _goes_on(self) -> bool:
        """Return whether the list of another stream follows, and go to its first event."""
        while len(self._buffer) < _MOST_BETWEEN_BYTES and self._more():
            pass
        between = _BETWEEN_STREAMS.match(self._buffer) if self._list_ended else None
        if between is not None:
            self._drop(between.end() - 1)
            self._buffer = b"," + self._buffer[1:]  # as ahead of every event but the first
            self._list_ended = False
        return between is not None

    def _skip_rest(self) -> None:
        while self._more(_GROWTH_BYTES):
            self._drop(len(self._buffer))

    def _read_trailer(self, document: TraceDocument) -> None:
        while self._more():
            if len(self._buffer) > HEADER_LIMIT_BYTES:
                trailer = self._buffer if self._list_ended else b""
                if not read_trailer(trailer, document, self._losses, self._offset, cut=True):
                    self._losses.add("trailing-data", self._offset, "more text than any profiler writes there")
                self._buffer, self._list_ended = b"", True
                self._skip_rest()
                return
        if self._list_ended:
            read_trailer(self._buffer, document, self._losses, self._offset, cut=self._stream.cut)
        elif document.is_object and not self._stream.cut and "truncated" not in self._losses:
            self._losses.add("truncated", self._offset, "the event list is not closed")


def _last_event_bytes(rest: bytes | memoryview) -> int:
    """Return the length of an event that ends the list, with its comma; 0 where it is another or a damaged one.

    Alone in a chunk it would cost as much as thousands of events.
    """
    text = bytes(rest).decode("latin-1")  # one character a byte
    comma = _COMMA.match(text)
    try:
        _, end = _DECODER.raw_decode(text, comma.end() if comma else 0)
    except ValueError:
        return 0
    return end if _CLOSED.match(rest, end) else 0


def _end_of_an_event(buffer: bytes | memoryview) -> int | None:
    """Return where an event ends, as late in the buffer as the text shows quickly."""
    for window in (_TAIL_BYTES, len(buffer)):
        found = list(SEPARATOR.finditer(buffer, max(0, len(buffer) - window)))
        if found:
            return found[-1].start() + 1
    return None
