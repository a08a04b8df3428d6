"""Nsight Compute: tables of counters that `ncu --csv` printed, and reports, which lie beside the traces of a run."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.ingest import IngestOptions, Progress
from traceanalyzer.ingest.ncu.pages import Pages, has_decimal_comma
from traceanalyzer.ingest.ncu.records import RecordFile, Records, plain_head
from traceanalyzer.ingest.packed.streams import head_of

if TYPE_CHECKING:
    from traceanalyzer.ingest.sink import TraceSink

# What writes a table out of a report, which only NVIDIA's programs read (the extra `ncu` has one).
EXPORT = "ncu --import {} --csv --page raw > report.csv"
WAYS = f"write its counters as a table: {EXPORT}; or pip install 'gpu-traceanalyzer[ncu]', which reads reports"
FOLDER = "ncu"  # the subfolder that a table gets instead of that of a trace
_HEADER = re.compile(rb'^(?:\xef\xbb\xbf)?[ \t]*"?ID"?,.*', re.MULTILINE)
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
        header = next((line for line in _HEADER.finditer(head) if _is_header(line[0])), None)
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
                    f"write one: {EXPORT.format('REPORT.ncu-rep')}",
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
