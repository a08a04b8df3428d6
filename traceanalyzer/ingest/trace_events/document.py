"""The text around the event list: where the list begins, and the top-level keys before and after it."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.trace_events.losses import Losses

# A header larger than this holds no event list a reader would find in time.
HEADER_LIMIT_BYTES = 64 * 2**20
# A longer value is kept by no profiler for people to read.
_LONGEST_VALUE = 8 * 2**20
# Python refuses to convert longer numbers to text and back.
_MOST_DIGITS = 4000
LONE_SURROGATE = re.compile("[\ud800-\udfff]")
_SPACE = re.compile(r"[\s\0]*")
_EVENTS_KEY = re.compile(rb'"traceEvents"\s*:\s*\[')
_NEXT_KEY = re.compile(r',\s*(?="[^"\\]{1,80}"\s*:)')


@dataclass
class TraceDocument:
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
        return TraceDocument(skipped + 1, is_object=False)
    if stripped[:1] != b"{":
        raise TraceAnalyzerError(
            "is no trace: it begins neither with { nor with [", hint="expected PyTorch profiler or Chrome trace JSON"
        )
    key = _EVENTS_KEY.search(data)
    if key is None:
        if not at_end and len(data) < HEADER_LIMIT_BYTES:
            return None
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


def read_trailer(data: bytes, document: TraceDocument, losses: Losses, offset: int, *, cut: bool) -> None:
    """Read what follows the event list: for an object its remaining keys and brace, then nothing but blanks."""
    text = data.decode(errors="replace")
    position = 0
    if document.is_object:
        position = read_keys(text, document.metadata, losses, offset)
        if position >= len(text):
            if not cut:
                losses.add("truncated", offset + len(data), "the document's closing brace is missing")
            return
        position += 1
    rest = text[position:].strip(" \t\r\n\0")
    if rest:
        losses.add("trailing-data", offset + len(text[:position].encode()), rest)
