"""CSV of every writer reads back as the rows that were written, and a spreadsheet computes nothing in it."""

from __future__ import annotations

import csv
import io
import tempfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import duckdb
import pyarrow as pa
import pytest

from traceanalyzer.exports.heat_map import write_heat_map
from traceanalyzer.exports.overlay import write_critical_path_table
from traceanalyzer.hta import PathPart
from traceanalyzer.metrics import Metric, metrics
from traceanalyzer.query.metric_files import LAYOUTS, _as_written
from traceanalyzer.report.screens import result_set
from traceanalyzer.text.visible import CsvRows

FORMULAS = ["=1+1", "+1", "-1", "@SUM(A1)", "\t=1", "\r=1", "\n=1", "＝1"]
PLAIN = ["a=1", "", "'", "aten::mm", "void f<1, 2>()", 'a"b', "a\rb", "a\r\nb", "a\nb", " =1"]


def written(name: str) -> str:
    return f"'{name}" if name in FORMULAS else name


def read_back(text: str) -> list[list[str]]:
    return list(csv.reader(io.StringIO(text, newline="")))


def by_rows(names: list[str]) -> str:
    target = io.StringIO()
    rows = CsvRows(target)
    for name in names:
        rows.add((name, 1))
    return target.getvalue()


def by_sql(names: list[str]) -> str:
    target = io.StringIO()
    rows = pa.table({"name": names, "n": [1] * len(names)})  # noqa: F841  DuckDB finds it by its name
    result_set.write_csv(duckdb.connect().execute("FROM rows"), target)
    return target.getvalue().removeprefix("name,n\n")


def by_metric(names: list[str]) -> str:
    rows = pa.table({"name": names, "n": [1] * len(names)})  # noqa: F841  DuckDB finds it by its name
    columns = tuple(SimpleNamespace(name=name, type=kind) for name, kind in (("name", "VARCHAR"), ("n", "BIGINT")))
    query = _as_written(cast("Metric", SimpleNamespace(columns=columns)), "FROM rows", "csv")
    with tempfile.NamedTemporaryFile(suffix=".csv") as file:
        duckdb.execute(f"COPY ({query}) TO '{file.name}' ({LAYOUTS['csv']})")
        return Path(file.name).read_bytes().decode().removeprefix("name,n\n")


def by_path(names: list[str]) -> str:
    parts = [PathPart("op", name, 0, "t", 1, 0, 1, 1) for name in names]
    path = SimpleNamespace(parts=parts, window=SimpleNamespace(start_ns=0), span_ns=1, kind_ns={"left_out": 0})
    target = io.BytesIO()
    write_critical_path_table(cast("Any", path), target)
    return target.getvalue().decode()


def by_heat_map(names: list[str]) -> str:
    target = io.BytesIO()
    write_heat_map(pa.table({"rank": [1] * len(names), "trace": names}), ".csv", target)
    return target.getvalue().decode()


# writer → how many rows are no data: before and after, and the column of the name
WRITERS: dict[str, tuple[Any, int, int, int]] = {
    "rows": (by_rows, 0, 0, 0),
    "sql": (by_sql, 0, 0, 0),
    "metrics export": (by_metric, 0, 0, 0),
    "critical-path": (by_path, 1, 1, 2),
    "heatmap": (by_heat_map, 1, 0, 1),
}


@pytest.mark.parametrize("writer", WRITERS)
def test_names_read_back_and_are_no_formulas(writer: str) -> None:
    write, before, after, column = WRITERS[writer]
    names = [*FORMULAS, *PLAIN]
    rows = read_back(write(names))
    assert [row[column] for row in rows[before : len(rows) - after]] == [written(name) for name in names]


def test_numbers_stay_numbers() -> None:
    target = io.StringIO()
    CsvRows(target).add((-1, -0.5, None, True))
    assert target.getvalue() == "-1,-0.5,,True\n"


def test_every_metric_can_be_written_as_csv() -> None:
    for name, metric in metrics().items():
        columns = ", ".join(f'NULL::{column.type} AS "{column.name}"' for column in metric.columns)
        query = _as_written(metric, f"SELECT {columns}", "csv")
        written = duckdb.sql(query)
        assert written is not None
        assert written.columns == [column.name for column in metric.columns], name
