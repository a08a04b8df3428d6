"""Nsight Compute: tables of counters that `ncu --csv` printed, and reports, which lie beside the traces of a run."""

from __future__ import annotations

import codecs
import csv
import re
import sys
from collections.abc import Iterator, Mapping
from contextlib import closing
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.ncu.pages import Pages, has_decimal_comma
from traceanalyzer.ingest.packed.streams import BROKEN, UnpackBudget, UnpackLimits, head_of, opened
from traceanalyzer.ingest.unread_formats import EXPORT_COUNTERS
from traceanalyzer.process import started_program

if TYPE_CHECKING:
    from traceanalyzer.ingest.sink import TraceSink


# A raw page has a few thousand columns of fifty letters; a record of more is none.
MAX_LINE_BYTES = 4 * 2**20
LIMITS = UnpackLimits(total_bytes=4 * 2**30)
# Where a compressed file ends early, what was asked for together with the end is lost.
_BLOCK_BYTES = 2**16
# What PowerShell writes behind `>`.
_BOMS_UTF16 = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
# A quoted text may have line breaks: the advice of a rule has a few.
_MAX_LINES = 64
# Spreadsheets of many languages write semicolons or tabs between columns.
_HEADER = re.compile(r'\s*"?ID"?[ ]*([,;\t])')
# Nsight Compute quotes every cell; tools that write its tables again need not.
_QUOTED_ROW = r'\s*"\d+"[ ]*{}'
_PLAIN_ROW = r"\s*\d+[ ]*{}"
# The second line of a raw page: units below the names, and nothing below ID.
_UNITS = r'[ ]*(?:"")?[ ]*{}'


class Records(Protocol):
    """What is read of a file, record by record, and how that went."""

    _path: Path
    read_bytes: int = 0
    truncated: bool = False
    lost_count: int = 0
    first_lost: str | None = None

    def __init__(self, path: Path) -> None:
        self._path = path

    def records(self) -> Iterator[list[str]]:
        """Return each header, row of units and row, as lists of cells."""


class RecordFile(Records):
    """The lines of a file that are records, or begin like one, as lists of cells."""

    def records(self) -> Iterator[list[str]]:
        """Return each header, row of units and row; what a program printed in between is left out."""
        lines = _Lines(self._lines())
        row, units, separator, is_below_header = None, None, ",", False
        for line in lines:
            header = _HEADER.match(line)
            if header is not None:
                separator = header[1]
                kind = _QUOTED_ROW if line.lstrip().startswith('"') else _PLAIN_ROW
                row, units = (re.compile(pattern.format(separator)) for pattern in (kind, _UNITS))
            is_units = is_below_header and units is not None and units.match(line)
            if row is None or not (header or row.match(line) or is_units):
                is_below_header = False
                continue
            is_below_header = header is not None
            cells = _cells(lines.completed(line, row), separator)
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


def _cells(record: str, separator: str) -> list[str] | None:
    """Return the cells of a record; None where its quotes do not close, or a cell is too long."""
    if record.count('"') % 2:
        return None
    try:
        return next(csv.reader([record], delimiter=separator), None)
    except csv.Error:
        return None


FOLDER = "ncu"  # the subfolder that a table gets instead of that of a trace
_HEAD_LINE = re.compile(rb'^(?:\xef\xbb\xbf)?[ ]*"?ID"?[,;\t].*', re.MULTILINE)
_BATCH_ROWS = 2**16
# Ten thousand launches with all metrics that there are; more of them say nothing new.
MAX_VALUES = 20_000_000
_LONGEST_EXAMPLE = 200


class NcuIngester:
    """Reads tables of Nsight Compute: `--page details` and `--page raw`, alone or in what the program printed."""

    name = "ncu"
    layout: str | None = None  # None: the pages say

    def __init__(self, max_values: int = MAX_VALUES) -> None:
        self._max_values = max_values

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a line is the header of a table."""
        head = plain_head(head)
        header = next((line for line in _HEAD_LINE.finditer(head) if _is_header(line[0])), None)
        # An archive holds its members' text, too, after zeros.
        return header is not None and b"\0" not in head[: header.end()]

    def ingest(self, path: Path, folder: Path, options: IngestOptions) -> None:
        """Write the tables of the file into `folder`/ncu: it has no trace.

        Raises TraceAnalyzerError where no launch is in it.
        """
        file, pages = self._opened(path)
        from traceanalyzer.ingest.sink import TraceSink
        from traceanalyzer.schema import run_tables

        counts = dict.fromkeys(run_tables(), 0)
        with TraceSink(folder / FOLDER, run_tables()) as sink:
            batches: dict[str, list[Mapping[str, Any]]] = {name: [] for name in counts}
            for table, row in pages.rows(file.records()):
                if counts["ncu_metrics"] == self._max_values:
                    file.truncated = True
                    break
                counts[table] += 1
                batches[table].append(row)
                if len(batches[table]) == _BATCH_ROWS:
                    _append(sink, table, batches[table])
                    options.report(Progress(path, file.read_bytes, path.stat().st_size, counts["ncu_metrics"]))
            if not pages.launch_count:
                raise TraceAnalyzerError(
                    "is no table of Nsight Compute, or an empty one",
                    path,
                    f"write one: {EXPORT_COUNTERS.format('REPORT.ncu-rep')}",
                )
            example = pages.example or file.first_lost
            batches["ncu_files"] = [
                {
                    "layout": self.layout or " and ".join(sorted(pages.layouts)) or "details",
                    "launch_count": counts["ncu_launches"],
                    "value_count": counts["ncu_metrics"],
                    "rule_count": counts["ncu_rules"],
                    "lost_line_count": pages.lost_line_count + file.lost_count,
                    "lost_value_count": pages.lost_value_count,
                    "truncated": file.truncated,
                    "example": None if example is None else example[:_LONGEST_EXAMPLE],
                }
            ]
            for name, rows in batches.items():
                _append(sink, name, rows)

    def _opened(self, path: Path) -> tuple[Records, Pages]:
        return RecordFile(path), Pages(has_decimal_comma(plain_head(head_of(path))))


def _is_header(line: bytes) -> bool:
    """Return whether a line names a launch's kernel and a metric, as a details page does or a raw page."""
    return b"Kernel Name" in line and (b"Metric Name" in line or b"__" in line)


def _append(sink: TraceSink, table: str, rows: list[Mapping[str, Any]]) -> None:
    import pyarrow as pa

    sink.append(table, pa.Table.from_pylist(rows, schema=sink.schema(table)))
    rows.clear()


_FIRST_BYTES = b"NVR\0"


def can_read_reports() -> bool:
    """Return whether NVIDIA's reader is installed."""
    return find_spec("ncu_report") is not None


class NcuReportIngester(NcuIngester):
    """Reads reports of Nsight Compute, where NVIDIA's reader is installed."""

    name = "ncu-rep"
    layout = "report"

    def sniff(self, head: bytes, path: Path) -> bool:
        """Return whether a file begins as a report, and can be read."""
        return head.startswith(_FIRST_BYTES) and can_read_reports()

    def _opened(self, path: Path) -> tuple[Records, Pages]:
        return ReportFile(path), Pages()


class ReportFile(Records):
    """The records that a report would have as a table, out of a program of its own (`report_rows`)."""

    def records(self) -> Iterator[list[str]]:
        """Return the header, and a row for each value and each result of a rule."""
        program = Path(__file__).with_name("report_rows.py")
        # -P: the folder of the program holds modules of this package, which are none of the libraries'.
        command = [sys.executable, "-P", str(program), str(self._path)]
        has_rows = False
        with started_program(command) as running:
            for row in csv.reader(running.stdout or ()):
                yield row
                has_rows = has_rows or row[0] != "ID"
        if running.returncode:
            if not has_rows:
                raise TraceAnalyzerError("is a report that NVIDIA's reader cannot read", self._path, "record it again")
            self.truncated = True
        self.read_bytes = self._path.stat().st_size
