"""The spreadsheet holds what the metrics return, cell by cell, and names are never formulas."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import pytest
from tiers import needed
from trace_event_tables import events, slice_text

import traceanalyzer as ta
from traceanalyzer.exports.xlsx import METRICS, write_xlsx

SLOW_LOADER = Path(__file__).parents[2] / "sample_traces" / "slow_loader"


def workbook(run: ta.Run, **options: Any) -> Any:
    target = io.BytesIO()
    write_xlsx(run, run.diagnose(), target, **options)
    return needed("openpyxl").load_workbook(io.BytesIO(target.getvalue()))


@pytest.mark.check
def test_every_cell_is_that_of_the_metric(tmp_path: Path) -> None:
    needed("xlsxwriter")
    with ta.open(SLOW_LOADER, store=tmp_path) as run:
        book = workbook(run)
        assert set(METRICS) | {"fixes", "findings", "evidence", "not_looked", "summary"} == set(book.sheetnames)
        for sheet, metric in METRICS.items():
            relation = run.sql(f"FROM {metric}")
            shown = [row for row in book[sheet].iter_rows(values_only=True) if any(cell is not None for cell in row)]
            assert list(shown[0]) == relation.columns
            expected = relation.fetchall()
            assert len(shown) - 1 == len(expected)
            for row, wanted in zip(shown[1:], expected, strict=True):
                for cell, value in zip(row, wanted, strict=True):
                    assert _same(cell, value), (sheet, cell, value)
        rules = {finding.rule for finding in run.diagnose().findings}
        assert {row[0] for row in book["findings"].iter_rows(min_row=2, values_only=True)} == rules


def _same(cell: Any, value: Any) -> bool:
    if isinstance(value, float):
        return bool(cell == pytest.approx(value, rel=1e-12))
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) > 2**53:
        return bool(cell == str(value))
    return bool(cell == value) or (value == "" and cell is None)


@pytest.mark.check
def test_names_are_text_and_what_is_cut_is_told(tmp_path: Path) -> None:
    needed("xlsxwriter")
    names = ('=HYPERLINK("http://example.org","x")', "http://example.org", "+1", "@cmd")
    kernel = '{"device": 0, "stream": 7, "correlation": 1}'
    slices = [
        slice_text(name.replace('"', '\\"'), ts=10 * at, cat='"kernel"', args=kernel) for at, name in enumerate(names)
    ]
    (tmp_path / "a.json").write_text(events(*slices))
    with ta.open(tmp_path / "a.json", store=tmp_path / "store") as run:
        book = workbook(run, most_rows=3)
        ((column, _),) = [(at, t) for at, t in enumerate(run.sql("FROM kernel_summary").columns) if t == "name"]
    cells = [row[column] for row in book["kernels"].iter_rows(min_row=2)]
    assert len(cells) == 3 and all(cell.data_type == "s" and cell.hyperlink is None for cell in cells)
    assert {cell.value for cell in cells} <= set(names)
    summary = dict(book["summary"].iter_rows(min_row=2, values_only=True))
    assert summary["rows of kernels"] == "3, the rest is cut"
