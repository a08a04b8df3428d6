"""A run as a spreadsheet: the diagnosis and the metrics behind it, a sheet each."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from itertools import islice
from typing import IO, Any

from traceanalyzer.diagnosis import Diagnosis
from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.visible import visible_lines
from traceanalyzer.run import Run

# What a sheet holds below its header.
MOST_ROWS = 1_048_575
# Metrics by the sheet that shows them.
METRICS = {
    "ledger": "time_ledger",
    "steps": "steps",
    "kernels": "kernel_summary",
    "operators": "op_summary",
    "collectives": "collectives",
    "copies": "copies",
    "launches": "launches",
}
# Fields of a finding, as the sheet `findings` has them.
_FINDING = (
    *("rule", "title", "kind", "severity", "confidence", "status", "trace", "rank", "device"),
    *("saving_ns", "saving_share", "owned_ns", "marginal_ns", "marginal_order", "message"),
)
_LONGEST_TEXT = 32_767
# A spreadsheet's numbers are doubles: a larger integer is written as text, so that no digit changes.
_EXACT = 2**53
_WIDTH = 18
_FORMATS = (("_ns", "#,##0"), ("_bytes", "#,##0"), ("_count", "#,##0"), ("_share", "0.0%"), ("_percent", "0.0"))

Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]


def write_xlsx(run: Run, diagnosis: Diagnosis, target: IO[bytes], most_rows: int = MOST_ROWS) -> None:
    """Write the workbook. Raises TraceAnalyzerError where XlsxWriter is not installed.

    Names from a trace are stored as text, never as formulas or links. The sheet `summary` lists what was cut.
    """
    try:
        import xlsxwriter
    except ImportError as error:
        hint = "pip install 'traceanalyzer[xlsx]'"
        raise TraceAnalyzerError("XlsxWriter is not installed", "export xlsx", hint) from error
    options = {
        "constant_memory": True,
        "strings_to_formulas": False,
        "strings_to_urls": False,
        "strings_to_numbers": False,
        "nan_inf_to_errors": True,
    }
    book = xlsxwriter.Workbook(target, options)
    header = book.add_format({"bold": True, "bottom": 1})
    formats = {ending: book.add_format({"num_format": text}) for ending, text in _FORMATS}
    counts: dict[str, tuple[int, bool]] = {}

    def add(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int = most_rows) -> None:
        sheet = book.add_worksheet(name)
        sheet.freeze_panes(1, 0)
        for column, title in enumerate(columns):
            kind = next((formats[ending] for ending, _ in _FORMATS if title.endswith(ending)), None)
            sheet.set_column(column, column, _WIDTH, kind)
            sheet.write_string(0, column, title, header)
        source, count = iter(rows), 0
        for count, row in enumerate(islice(source, most), start=1):
            for column, value in enumerate(row):
                _write_cell(sheet, count, column, value)
        sheet.autofilter(0, 0, count, max(0, len(columns) - 1))
        counts[name] = (count, next(source, None) is not None)

    for name, (columns, rows) in _sheets(run, diagnosis).items():
        add(name, columns, rows)
    add("summary", ("what", "value"), _summary(diagnosis, counts), MOST_ROWS)
    book.get_worksheet_by_name("summary").activate()
    book.close()


def _write_cell(sheet: Any, row: int, column: int, value: Any) -> None:
    if value is None:
        return
    if isinstance(value, bool):
        sheet.write_boolean(row, column, value)
    elif isinstance(value, float) or (isinstance(value, int) and abs(value) <= _EXACT):
        sheet.write_number(row, column, value)
    else:
        text = str(value) if isinstance(value, (str, int)) else json.dumps(value, default=str)
        sheet.write_string(row, column, _shown(text))


@lru_cache(2**16)
def _shown(text: str) -> str:
    return visible_lines(text)[:_LONGEST_TEXT]


def _sheets(run: Run, diagnosis: Diagnosis) -> dict[str, Rows]:
    ledger, *others = METRICS
    found = [finding for finding in diagnosis.findings if finding.kind != "quality"]
    sheets: dict[str, Rows] = {
        ledger: _of_metric(run, METRICS[ledger]),
        "fixes": (
            ("rule", "fix", "lang", "code"),
            [(f.rule, fix.text, fix.lang, fix.code) for f in found for fix in f.fixes],
        ),
        "findings": (_FINDING, [[getattr(f, name) for name in _FINDING] for f in diagnosis.findings]),
        "evidence": (
            ("rule", "table", "row", "column", "value"),
            [
                (f.rule, table.title, number, column, value)
                for f in diagnosis.findings
                for table in f.evidence
                for number, row in enumerate(table.rows, start=1)
                for column, value in zip(table.columns, row, strict=True)
            ],
        ),
    }
    sheets |= {name: _of_metric(run, METRICS[name]) for name in others}
    skipped = [o for o in diagnosis.outcomes if o.state == "abstained"]
    sheets["not_looked"] = (
        ("rule", "title", "trace", "rank", "device", "reason", "detail", "what_to_record"),
        [(o.rule, o.title, o.trace, o.rank, o.device, o.reason, o.detail, o.unlock) for o in skipped],
    )
    return sheets


def _of_metric(run: Run, metric: str) -> Rows:
    names = run.connection.sql(f"FROM {metric} LIMIT 0").columns
    return names, _rows(run, metric)


def _rows(run: Run, metric: str) -> Iterator[Sequence[Any]]:
    with run.connection.cursor() as own:
        result = own.execute(f"FROM {metric}")
        while rows := result.fetchmany(10_000):
            yield from rows


def _summary(diagnosis: Diagnosis, counts: dict[str, tuple[int, bool]]) -> list[tuple[str, Any]]:
    rows: list[tuple[str, Any]] = [("run", diagnosis.run)]
    rows += [(f"trace {trace.trace}", f"{trace.format}, {trace.event_count} events") for trace in diagnosis.traces]
    for name, (count, is_cut) in counts.items():
        rows.append((f"rows of {name}", f"{count}, the rest is cut" if is_cut else count))
    return rows
