"""The records of a rocprofv3 JSON file one after the other: files reach gigabytes, so no more than a piece is held.

Values in rocprofv3's JSON.

Rows of numbers that are put aside on disk until all of them are there.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from traceanalyzer.ingest.amd.recording import Lookup
from traceanalyzer.ingest.nesting import NONE
from traceanalyzer.ingest.nsys.masks import Column
from traceanalyzer.ingest.trace_events.losses import Losses
from traceanalyzer.ingest.trace_events.stream import ByteStream

# Sums of times stay within 64 bits.
_LARGEST_NS = 2**62


def kernel_name(symbol: Mapping[str, Any]) -> str | None:
    """Return the name of a kernel as the user asked for it."""
    shown = symbol.get("formatted_kernel_name") or symbol.get("demangled_kernel_name") or symbol.get("kernel_name")
    return str(shown).removesuffix(" [clone .kd]") if shown else None


def whole_number(value: Any) -> int:
    """Return a number of 64 bits, also of a text or a real that says one. Raises ValueError where it is none."""
    if isinstance(value, str | float):
        value = int(value) if isinstance(value, str) or value.is_integer() else value
    if isinstance(value, bool) or not isinstance(value, int) or not -(2**63) <= value < 2**63:
        raise ValueError(value)
    return value


def time_of(value: Any) -> int:
    """Return a time in ns. Raises ValueError where it is none that a clock since boot shows."""
    time_ns = whole_number(value)
    if not 0 <= time_ns < _LARGEST_NS:
        raise ValueError(value)
    return time_ns


def number_or_none(value: Any) -> int | None:
    """Return a number of 64 bits; None for every other value."""
    try:
        return whole_number(value)
    except ValueError:
        return None


def text_or_none(value: Any) -> str | None:
    """Return a text that says something; None for every other value."""
    return value if isinstance(value, str) and value else None


def handle_of(value: Any) -> int:
    """Return a handle, of which some have their highest bit set; NONE where there is none."""
    number = value.get("handle") if isinstance(value, dict) else value
    with suppress(ValueError):
        number = int(number) if isinstance(number, str) else number
    if isinstance(number, bool) or not isinstance(number, int) or not -(2**63) <= number < 2**64:
        return NONE
    return number - 2**64 if number >= 2**63 else number


def object_of(value: Any) -> dict[str, Any]:
    """Return a value that is an object; an empty one for every other."""
    return value if isinstance(value, dict) else {}


def objects_of(value: Any) -> list[dict[str, Any]]:
    """Return the members of a list as objects, empty ones for every other; an empty list for every other value."""
    return [object_of(one) for one in value] if isinstance(value, list) else []


def texts_by_key(value: Any) -> tuple[Lookup, Column]:
    """Return the keys and the texts of a list of {key, value}."""
    listed = [
        (key, str(one["value"]))
        for one in objects_of(value)
        if (key := number_or_none(one.get("key"))) is not None and one.get("value") is not None
    ]
    texts: Column = pa.array([text for _, text in listed], pa.string())
    return Lookup(np.array([key for key, _ in listed], np.int64)), texts


_BATCH_ROWS = 16_384


class RowSpool:
    """Collects rows, and yields them in batches afterwards; nothing is written where they are few."""

    def __init__(self, path: Path, columns: Sequence[str], reals: Sequence[str] = ()) -> None:
        self._path = path
        fields = [pa.field(name, pa.int64()) for name in columns] + [pa.field(name, pa.float64()) for name in reals]
        self._schema = pa.schema(fields)
        self._rows: list[tuple[Any, ...]] = []
        self._file: pa.RecordBatchFileWriter | None = None
        self.count = 0

    def add(self, row: tuple[Any, ...]) -> None:
        self._rows.append(row)
        self.count += 1
        if len(self._rows) == _BATCH_ROWS:
            if self._file is None:
                self._file = pa.ipc.new_file(str(self._path), self._schema)
            self._file.write_batch(self._batch())
            self._rows = []

    def close(self) -> None:
        if self._file is not None:
            self._file.close()

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Yield all rows, any number of times."""
        if self._file is not None:
            with pa.memory_map(str(self._path)) as source:
                reader = pa.ipc.open_file(source)
                for number in range(reader.num_record_batches):
                    yield reader.get_batch(number)
        if self._rows:
            yield self._batch()

    def _batch(self) -> pa.RecordBatch:
        columns = zip(*self._rows, strict=True)
        arrays = [pa.array(list(column), field.type) for column, field in zip(columns, self._schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self._schema)


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

    def check_next(self) -> None:
        """Raise CutError where a process is followed by neither another one nor the end of the list."""
        if self._skip() not in "{]":
            raise CutError(f"no process: {self._text[self._at : self._at + 40]!r}")

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
