"""Tables as the sheets of a workbook: numbers keep their digits, and names are text, never formulas or links."""

from __future__ import annotations

import importlib.util
import json
from collections.abc import Iterable, Mapping, Sequence
from functools import lru_cache
from itertools import islice
from typing import IO, Any

from traceanalyzer.errors import TraceAnalyzerError
from traceanalyzer.report.visible import visible_lines

# What a sheet holds below its header.
MOST_ROWS = 1_048_575
_LONGEST_TEXT = 32_767
# A spreadsheet's numbers are doubles: a larger integer is written as text, so that no digit changes.
_EXACT = 2**53
_WIDTH = 18
_FORMATS = (
    ("__pct", "0.0%"),
    ("_ns", "#,##0"),
    ("_bytes", "#,##0"),
    ("_count", "#,##0"),
    ("_share", "0.0%"),
    ("_percent", "0.0"),
)
# What a column of a comparison has behind its name.
SIDES = ("__base", "__new", "__diff")

Rows = tuple[Sequence[str], Iterable[Sequence[Any]]]


def check_installed(asked: str) -> None:
    """Raise TraceAnalyzerError where XlsxWriter is not installed; `asked` is the command or option that needs it."""
    if importlib.util.find_spec("xlsxwriter") is None:
        raise TraceAnalyzerError("XlsxWriter is not installed", asked, "pip install 'gpu-traceanalyzer[xlsx]'")


def write_workbook(
    sheets: Mapping[str, Rows],
    summary: Iterable[Sequence[Any]],
    target: IO[bytes],
    most_rows: int = MOST_ROWS,
) -> None:
    """Write sheets in their order, and `summary` behind them, with how many rows of each are there or were cut."""
    import xlsxwriter

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

    def add(name: str, columns: Sequence[str], rows: Iterable[Sequence[Any]], most: int) -> tuple[str, Any]:
        sheet = book.add_worksheet(name)
        sheet.freeze_panes(1, 0)
        for column, title in enumerate(columns):
            plain = next((title.removesuffix(side) for side in SIDES if title.endswith(side)), title)
            kind = next((formats[ending] for ending, _ in _FORMATS if plain.endswith(ending)), None)
            sheet.set_column(column, column, _WIDTH, kind)
            sheet.write_string(0, column, title, header)
        source, count = iter(rows), 0
        for count, row in enumerate(islice(source, most), start=1):
            for column, value in enumerate(row):
                _write_cell(sheet, count, column, value)
        sheet.autofilter(0, 0, count, max(0, len(columns) - 1))
        is_cut = next(source, None) is not None
        return f"rows of {name}", f"{count}, the rest is cut" if is_cut else count

    counts = [add(name, columns, rows, most_rows) for name, (columns, rows) in sheets.items()]
    add("summary", ("what", "value"), [*summary, *counts], MOST_ROWS)
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
