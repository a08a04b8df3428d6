"""Every metric says what it returns and holds on a run without events."""

from __future__ import annotations

from collections.abc import Iterator

import duckdb
import pytest

from traceanalyzer.attribution.columns import BUCKETS
from traceanalyzer.metrics import metrics
from tracesim import in_memory


@pytest.fixture(scope="module")
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    with in_memory.connect_tables({}) as connection:
        yield connection


@pytest.mark.parametrize("name", sorted(metrics()))
def test_header_lists_the_columns_that_the_query_returns(name: str, empty: duckdb.DuckDBPyConnection) -> None:
    returned = [(row[0], row[1]) for row in empty.execute(f"DESCRIBE main.{name}").fetchall()]
    assert returned == [(column.name, column.type) for column in metrics()[name].columns]


@pytest.mark.parametrize("name", sorted(metrics()))
def test_metric_without_data_returns_no_rows_and_no_error(name: str, empty: duckdb.DuckDBPyConnection) -> None:
    of_no_trace = {
        "capability_kinds",
        "hardware_details",
        "hardware_peaks",
        "kernel_class_patterns",
        "operator_models",
        "recording_hints",
    }
    rows = empty.execute(f'FROM "{name}"').fetchall()
    assert rows == [] or name in of_no_trace


@pytest.mark.parametrize("name", sorted(metrics()))
def test_summary_is_one_sentence_that_says_what_a_row_is(name: str) -> None:
    metric = metrics()[name]
    assert metric.summary.startswith("One row per ")
    assert metric.summary.endswith(".")
    assert all(column.comment for column in metric.columns)


def test_the_ledger_explains_every_bucket() -> None:
    words = metrics()["time_ledger"].text.replace(",", " ").split()
    assert [bucket for bucket in BUCKETS if bucket not in words] == []
