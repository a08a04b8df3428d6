"""The records of a CSV file that a program's own output surrounds, however long its lines are."""

from __future__ import annotations

import codecs
import csv
import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Protocol

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.packed.streams import BROKEN, UnpackBudget, UnpackLimits, opened

# A raw page has a few thousand columns of fifty letters; a record of more is none.
MAX_LINE_BYTES = 4 * 2**20
LIMITS = UnpackLimits(total_bytes=4 * 2**30)
# Where a compressed file ends early, what was asked for together with the end is lost.
_BLOCK_BYTES = 2**16
# What PowerShell writes behind `>`.
_BOMS_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# A quoted text may have line breaks: the advice of a rule has a few.
_MAX_LINES = 64
_HEADER = re.compile(r'\s*"?ID"?\s*,')
# Nsight Compute quotes every cell; tools that write its tables again need not.
_QUOTED_ROW = re.compile(r'\s*"\d+"\s*,')
_PLAIN_ROW = re.compile(r"\s*\d+\s*,")
# The second line of a raw page: units below the names, and nothing below ID.
_UNITS = re.compile(r'\s*(?:"")?\s*,')


class Records(Protocol):
    """What is read of a file, record by record, and how that went."""

    read_bytes: int
    truncated: bool
    lost_count: int
    first_lost: str | None

    def records(self) -> Iterator[list[str]]:
        """Return each header, row of units and row, as lists of cells."""


class RecordFile:
    """The lines of a file that are records, or begin like one, as lists of cells."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.read_bytes = 0
        self.truncated = False
        self.lost_count = 0
        self.first_lost: str | None = None

    def records(self) -> Iterator[list[str]]:
        """Return each header, row of units and row; what a program printed in between is left out."""
        lines = _Lines(self._lines())
        row, is_below_header = None, False
        for line in lines:
            is_header = _HEADER.match(line) is not None
            if is_header:
                row = _QUOTED_ROW if line.lstrip().startswith('"') else _PLAIN_ROW
            if row is None or not (is_header or row.match(line) or (is_below_header and _UNITS.match(line))):
                is_below_header = False
                continue
            is_below_header = is_header
            cells = _cells(lines.completed(line, row))
            if cells is None:
                self.lose(line)
            else:
                yield cells

    def lose(self, text: str) -> None:
        """Count something that begins like a row and is none."""
        self.lost_count += 1
        self.first_lost = self.first_lost or text

    def _lines(self) -> Iterator[str]:
        rest, is_cut = b"", False
        for block in self._blocks():
            *whole, rest = (rest + block).split(b"\n")
            for line in whole:
                if is_cut:
                    is_cut = False
                else:
                    yield _text(line)
            if len(rest) > MAX_LINE_BYTES:
                if not is_cut:
                    self.lose(_text(rest[:200]))
                rest, is_cut = b"", True
        if rest and not is_cut:
            yield _text(rest)

    def _blocks(self) -> Iterator[bytes]:
        """Return the file's bytes, unpacked; where a compressed file ends early, those before."""
        with closing(opened(self._path)) as stream:
            counted = UnpackBudget(LIMITS, self._path).counting(stream)
            utf16: codecs.IncrementalDecoder | None = None
            while True:
                try:
                    block = counted.read(_BLOCK_BYTES)
                except BROKEN as error:
                    if not self.read_bytes:
                        raise TraceAnalyzerError(f"cannot be read: {error}", self._path, "copy it again") from error
                    self.truncated = True
                    return
                if not block:
                    return
                if not self.read_bytes and block.startswith(_BOMS_UTF16):
                    utf16 = codecs.getincrementaldecoder("utf-16")(errors="replace")
                plain = block if utf16 is None else utf16.decode(block).encode()
                yield plain.removeprefix(codecs.BOM_UTF8) if not self.read_bytes else plain
                self.read_bytes += len(block)


class _Lines:
    """Lines, with those that belong to a record of several."""

    def __init__(self, lines: Iterator[str]) -> None:
        self._lines = lines
        self._next: str | None = None

    def __iter__(self) -> Iterator[str]:
        while (line := self._take()) is not None:
            yield line

    def completed(self, line: str, row: re.Pattern[str]) -> str:
        """Return a line with those up to the end of its last quoted text, which stops where another row begins."""
        parts, quotes = [line], line.count('"')
        while quotes % 2 and len(parts) < _MAX_LINES and (following := self._take()) is not None:
            if _HEADER.match(following) or row.match(following):
                self._next = following
                break
            parts.append(following)
            quotes += following.count('"')
        return "\n".join(parts)

    def _take(self) -> str | None:
        line, self._next = self._next, None
        return next(self._lines, None) if line is None else line


def plain_head(head: bytes) -> bytes:
    """Return the first bytes of a file in UTF-8."""
    return head.decode("utf-16", errors="replace").encode() if head.startswith(_BOMS_UTF16) else head


def _text(line: bytes) -> str:
    return line.decode("utf-8", errors="replace").rstrip("\r")


def _cells(record: str) -> list[str] | None:
    """Return the cells of a record; None where its quotes do not close, or a cell is too long."""
    if record.count('"') % 2:
        return None
    try:
        return next(csv.reader([record]), None)
    except csv.Error:
        return None
