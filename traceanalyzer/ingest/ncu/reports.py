"""Reports of Nsight Compute (.ncu-rep), through NVIDIA's reader: the extra `ncu`."""

from __future__ import annotations

import csv
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest.ncu import NcuIngester
from traceanalyzer.ingest.ncu.pages import Pages
from traceanalyzer.ingest.ncu.records import Records
from traceanalyzer.process import started_program

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


class ReportFile:
    """The records that a report would have as a table, out of a program of its own (`report_rows`)."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self.read_bytes = 0
        self.truncated = False
        self.lost_count = 0
        self.first_lost: str | None = None

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
