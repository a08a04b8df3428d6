"""A metric's header may say what it has no row without: that is read by the metric, and true of every run."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import duckdb
import pytest

import traceanalyzer
from traceanalyzer.metrics import metrics, metrics_in_order, with_those_below
from traceanalyzer.query import engine
from tracesim import in_memory

SAMPLES = Path(__file__).parents[2] / "sample_traces"
CORPUS = Path(__file__).parents[3] / "shared" / "corpus"
SAYING = sorted(name for name, metric in metrics().items() if metric.empty_without)
RUNS = [path for path in sorted(SAMPLES.iterdir()) if path.is_dir() and path.name[0] != "_"]
RUNS += [path for part in ("kineto", "nsys") for path in sorted((CORPUS / part).glob("*.*")) if path.suffix != ".md"]


@pytest.fixture(scope="module")
def empty() -> Iterator[duckdb.DuckDBPyConnection]:
    with in_memory.connect_tables({}) as connection:
        yield connection


@pytest.mark.parametrize("name", SAYING)
def test_what_is_needed_is_a_query_over_what_the_metric_reads(name: str, empty: duckdb.DuckDBPyConnection) -> None:
    needed = metrics()[name].empty_without or ""
    texts = "\n".join(metric.sql for metric in with_those_below([name]).values())
    for relation in re.findall(r"(?:^|FROM |JOIN )([a-z_.]+)", needed):
        assert re.search(rf"\b{relation.removeprefix('canonical.')}\b", texts), relation
    assert not engine.may_have_rows(empty, name)


def test_a_metric_without_what_it_needs_is_an_empty_table() -> None:
    readers = [f"SELECT * FROM {name} JOIN {name} AS other ON TRUE" for name in SAYING]
    with in_memory.connect_tables({}, readers=readers) as connection:
        kinds = "SELECT table_name, estimated_size FROM duckdb_tables() WHERE schema_name = 'main'"
        tables = dict(connection.execute(kinds).fetchall())
        # What several of them read is a table, too.
        assert {name: tables.get(name) for name in SAYING} == dict.fromkeys(SAYING, 0)


@pytest.mark.check
@pytest.mark.parametrize("path", RUNS, ids=lambda path: path.name)
def test_no_metric_has_rows_without_what_it_needs(path: Path, tmp_path: Path) -> None:
    with traceanalyzer.open_run(path, store=tmp_path) as run:
        connection = run.connection
        wrong = [
            name
            for name in metrics_in_order()
            if not engine.may_have_rows(connection, name)
            and connection.execute(f"SELECT 1 FROM main.{name} LIMIT 1").fetchall()
        ]
    assert wrong == []
