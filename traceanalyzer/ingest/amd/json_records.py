"""The records of a rocprofv3 JSON file one after the other: files reach gigabytes, so no more than a piece is held."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.stream import ByteStream

# No value other than a list of records has so much text.
_LONGEST = 256 * 2**20
_BLOCK_BYTES = 2**20
_SPACE = re.compile(r"[\s,]*")
_DECODER = json.JSONDecoder(strict=False)
TOOL = "rocprofiler-sdk-tool"
# Objects whose lists hold the records.
_OF_RECORDS = ("buffer_records", "callback_records")


class CutError(Exception):
    """The text ends, or goes on with what is no JSON."""


class ToolRecords:
    """Walks through the file, and hands out its values and records."""

    def __init__(self, path: Path) -> None:
        self.losses = Losses()
        self._stream = ByteStream(path, self.losses)
        self._text = ""
        self._at = 0
        self._pending = b""
        self._ended = False

    def close(self) -> None:
        """Close the file."""
        self._stream.close()

    def tools(self) -> Iterator[Iterator[tuple[str, str, Any]]]:
        """Yield each process: see `_tool`. Raises CutError where the text cannot be read on."""
        self._expect("{")
        while not self._takes("}"):
            key = self._value()
            self._expect(":")
            if key != TOOL:
                self._value()
                continue
            self._expect("[")
            while not self._takes("]"):
                yield self._tool()

    def _tool(self) -> Iterator[tuple[str, str, Any]]:
        """Yield ('', key, value) for what describes a process, and (object, list, record) for each record."""
        self._expect("{")
        while not self._takes("}"):
            key = self._value()
            self._expect(":")
            if key in _OF_RECORDS and self._takes("{"):
                while not self._takes("}"):
                    kind = self._value()
                    self._expect(":")
                    if not self._takes("["):
                        self._value()
                        continue
                    while not self._takes("]"):
                        yield str(key), str(kind), self._value()
            else:
                yield "", str(key), self._value()

    def _more(self) -> bool:
        """Read on: as much again, so that long values are tried few times."""
        if self._ended:
            return False
        data = self._pending + self._stream.read(max(_BLOCK_BYTES, len(self._text) - self._at))
        self._ended = len(data) == len(self._pending)
        text = data.decode("utf-8", "replace") if self._ended else ""
        if not self._ended:
            try:
                text, self._pending = data.decode(), b""
            except UnicodeDecodeError as error:
                # A character may go on in the next block; other bytes are no text.
                cut = error.start if len(data) - error.start < 4 else len(data)
                text, self._pending = data[:cut].decode("utf-8", "replace"), data[cut:]
        self._text, self._at = self._text[self._at :] + text, 0
        return True

    def _skip(self) -> str:
        """Skip blanks and commas, and return the next character."""
        while True:
            self._at = _SPACE.match(self._text, self._at).end()  # type: ignore[union-attr]
            if self._at < len(self._text):
                return self._text[self._at]
            if not self._more():
                raise CutError("the text ends early")

    def _takes(self, character: str) -> bool:
        if self._skip() != character:
            return False
        self._at += 1
        return True

    def _expect(self, character: str) -> None:
        if not self._takes(character):
            raise CutError(f"{character} expected: {self._text[self._at : self._at + 40]!r}")

    def _value(self) -> Any:
        self._skip()
        while True:
            try:
                value, end = _DECODER.raw_decode(self._text, self._at)
            except (ValueError, RecursionError) as error:
                if len(self._text) - self._at > _LONGEST or not self._more():
                    raise CutError(f"no JSON: {self._text[self._at : self._at + 40]!r}") from error
                continue
            # A number may go on in the next block.
            if end == len(self._text) and self._more():
                continue
            self._at = end
            return value
